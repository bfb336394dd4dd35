// Lists the fields that an entry of the audit log changed.
import { usd } from "../ui/format.ts";

export interface FieldChange {
  /** `limits.max`; empty: the whole value. */
  readonly name: string;
  /** Undefined: there was none. */
  readonly before: string | undefined;
  readonly after: string | undefined;
}

/** Fields that differ between two JSON values, in the order of their names' first appearance. */
export function changesOf(before: unknown, after: unknown): readonly FieldChange[] {
  const old = fieldsOf(before);
  const next = fieldsOf(after);
  return [...new Set([...old.keys(), ...next.keys()])]
    .map((name) => ({ name, before: old.get(name), after: next.get(name) }))
    .filter((one) => one.before !== one.after);
}

export const changesText = (before: unknown, after: unknown): string =>
  changesOf(before, after)
    .map(({ name, before: old, after: next }) => `${name && `${name}: `}${old ?? "–"} → ${next ?? "–"}`)
    .join("; ");

/** Texts of the fields of a JSON value by name; lists stay whole. */
function fieldsOf(value: unknown, name = ""): ReadonlyMap<string, string> {
  if (value === null || value === undefined) return new Map();
  if (typeof value !== "object") return new Map([[name, plainText(name, value)]]);
  if (Array.isArray(value)) return new Map([[name, value.map((one) => textOf(one)).join(", ")]]);
  return new Map(
    Object.entries(value).flatMap(([key, part]) => [...fieldsOf(part, name === "" ? key : `${name}.${key}`)]),
  );
}

/** Names of amounts, which the log has in nano-USD, as digits in a string. */
const amounts = /(^|\.)(monthly_limit|limit|amount|threshold|credit_line|\w+_nano_usd)$/;

const plainText = (name: string, value: unknown): string =>
  typeof value === "string" && /^-?\d+$/.test(value) && amounts.test(name) ? usd(Number(value) / 1e9) : String(value);

const textOf = (value: unknown): string =>
  typeof value === "object" && value !== null ? JSON.stringify(value) : String(value);
