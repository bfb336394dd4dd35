// JSON whose integers survive: a number that a double cannot hold becomes a bigint (`seed` reaches to 2^64).
interface ReviverContext {
  readonly source?: string;
}

/** Whatever has more digits is beyond 2^64, and millions of them would take seconds to read. */
const longInteger = /^-?\d{1,20}$/;

/** Throws SyntaxError. */
export function parseJson(text: string): unknown {
  const revive = (_key: string, value: unknown, context?: ReviverContext) =>
    typeof value === "number" && !Number.isSafeInteger(value) && longInteger.test(context?.source ?? "")
      ? BigInt(context?.source as string)
      : value;
  // A reviver costs a call per value, so texts without a long number are spared it.
  return /\d{16}/.test(text) ? JSON.parse(text, revive) : JSON.parse(text);
}
