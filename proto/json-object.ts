/** A JSON object of unknown members. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** True for objects that are no lists. */
export const isJsonObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);
