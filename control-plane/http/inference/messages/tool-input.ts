import { exactInteger } from "../../body/exact-integers.ts";

/** Parses the arguments of a call. {} for text that is no JSON, such as the arguments of a response that max_tokens ended. */
export function parseInput(text: string): unknown {
  try {
    return JSON.parse(text, longDigits.test(text) ? exactly : undefined);
  } catch {
    return {};
  }
}

const longDigits = /\d{16}/;

/** Keeps the digits of an integer that no double holds. */
function exactly(_key: string, value: unknown, context?: { readonly source?: string }): unknown {
  return typeof value === "number" ? (exactInteger(context?.source ?? "") ?? value) : value;
}
