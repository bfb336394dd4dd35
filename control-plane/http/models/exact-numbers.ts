// Bounds beyond 2^53 in all their digits: JSON.stringify rounds them, and readers with whole numbers of any size would then
// read a bound that is not the one that is held.

/** The same value, such that JSON.stringify writes every whole number exactly. */
export function exactNumbers<Value>(value: Value): Value {
  if (typeof value === "number")
    return Number.isInteger(value) && !Number.isSafeInteger(value)
      ? (rawJson(BigInt(value).toString()) as Value)
      : value;
  if (Array.isArray(value)) return value.map(exactNumbers) as Value;
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, exactNumbers(one)])) as Value;
}

/** https://tc39.es/proposal-json-parse-with-source/ */
const { rawJSON: rawJson } = JSON as unknown as { readonly rawJSON: (text: string) => unknown };
