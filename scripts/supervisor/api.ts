// The product's own HTTP API, called with the first account's key: `up` has no other way in.
import { readFileSync } from "node:fs";

export interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: answers are read field by field, each checked where it is used
  readonly body: any;
}

export interface Api {
  readonly baseUrl: string;
  call(method: "GET" | "POST" | "PUT" | "DELETE", path: string, body?: unknown): Promise<Answer>;
}

const limitMs = 20_000;

/** Throws when the server cannot be reached; every answer, refusals included, is returned. */
export function openApi(baseUrl: string, keyFile: string, signal: AbortSignal): Api {
  return {
    baseUrl,
    async call(method, path, body) {
      const response = await fetch(baseUrl + path, {
        method,
        headers: {
          authorization: `Bearer ${readFileSync(keyFile, "utf8").trim()}`,
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: AbortSignal.any([signal, AbortSignal.timeout(limitMs)]),
      });
      const text = await response.text();
      return { status: response.status, body: parse(text) };
    },
  };
}

/** The sentence of an error answer, whichever of the API's dialects it has. */
export function refusal(answer: Answer): string {
  const { body } = answer;
  const detail = Array.isArray(body?.detail) ? body.detail[0] : undefined;
  const text = detail
    ? `${detail.loc?.join(".")}: ${detail.msg}`
    : (body?.error?.message ?? body?.error ?? body?.detail?.message ?? body?.detail);
  return typeof text === "string" ? text : `status ${answer.status}`;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
