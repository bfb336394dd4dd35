// Checks a file of batch requests before it is uploaded.

export const maxFileBytes = 200 * 1000 * 1000;
export const maxChecked = 100;
const required = ["custom_id", "url", "body"] as const;

export type LineFault =
  | { readonly is: "not_an_object" }
  | { readonly is: "no_field"; readonly field: (typeof required)[number] };

export interface Checked {
  readonly lines: number;
  /** The first line with a fault, counted from 1. */
  readonly fault: { readonly line: number; readonly why: LineFault } | undefined;
  /** Interface that the first request names; empty: none. */
  readonly endpoint: string;
}

/** Checks the first lines of OpenAI's format. */
export function checkRequests(text: string): Checked {
  const lines = text.split("\n");
  let endpoint = "";
  let fault: Checked["fault"];
  for (const [index, line] of lines.slice(0, maxChecked).entries()) {
    if (line.trim() === "") continue;
    const request = objectIn(line);
    const why = faultOf(request);
    if (why) {
      fault = { line: index + 1, why };
      break;
    }
    if (endpoint === "") endpoint = String(request?.["url"] ?? "");
  }
  return { lines: lines.filter((line) => line.trim() !== "").length, fault, endpoint };
}

function objectIn(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

function faultOf(request: Readonly<Record<string, unknown>> | undefined): LineFault | undefined {
  if (!request) return { is: "not_an_object" };
  const field = required.find((name) => request[name] === undefined);
  return field && { is: "no_field", field };
}
