// Distinguishes an outage of PostgreSQL (full disk, restart, no connection) from an error caused by a statement or its values.
import { DatabaseUnavailable, type OutageReason, reportTooLong } from "../../service-error.ts";

const networkCodes = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ETIMEDOUT",
  "ENOENT",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
]);

/** First match of a SQLSTATE prefix. Classes that are absent are the fault of a statement or its values. */
const sqlStates: readonly (readonly [string, OutageReason])[] = [
  ["53100", "disk_full"],
  ["53", "overloaded"],
  // Statement and lock time limits.
  ["57014", "overloaded"],
  ["55P03", "overloaded"],
  ["57", "unreachable"],
  ["25P03", "unreachable"],
  ["08", "unreachable"],
  ["25006", "read_only"],
  ["58", "failing"],
  ["F0", "failing"],
  ["XX", "failing"],
];

const noSpace = /no space left on device|disk full/i;

/** Undefined: PostgreSQL executed the statement and refused it. */
export function outageReason(error: unknown): OutageReason | undefined {
  if (error instanceof DatabaseUnavailable) return error.params.reason;
  const code = codeOf(error);
  if (networkCodes.has(code)) return "unreachable";
  const message = error instanceof Error ? error.message : "";
  const found = sqlStates.find(([prefix]) => code.startsWith(prefix))?.[1];
  // Some code paths of the server report ENOSPC as an I/O or internal error.
  if (found !== undefined) return noSpace.test(message) ? "disk_full" : found;
  const isLost = /connection terminated|timeout exceeded when trying to connect|query read timeout|not queryable/i;
  return code === "" && isLost.test(message) ? "unreachable" : undefined;
}

export const isDatabaseUnavailable = (error: unknown): boolean => outageReason(error) !== undefined;

/** Runs a store's work and throws DatabaseUnavailable for an outage. */
export async function asking<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const reason = outageReason(error);
    throw reason === undefined || error instanceof DatabaseUnavailable ? error : new DatabaseUnavailable(reason, error);
  }
}

/** For `catch`: throws reportTooLong if the statement hit the server's time limit, else the error. */
export const tooLong = (doing: string) => (error: unknown) => {
  throw codeOf(error) === "57014" ? reportTooLong(doing, error) : error;
};

export function codeOf(error: unknown): string {
  return typeof error === "object" && error !== null && "code" in error ? String(error.code) : "";
}

type Methods<T> = { readonly [K in keyof T]: T[K] extends (...args: never[]) => Promise<unknown> ? T[K] : never };

/** Returns the same store; its methods throw DatabaseUnavailable during an outage of PostgreSQL. */
export function asked<T extends Methods<T>>(store: T): T {
  const methods = Object.entries(store) as [string, (...args: unknown[]) => Promise<unknown>][];
  return Object.fromEntries(
    methods.map(([name, method]) => [name, (...args: unknown[]) => asking(() => method.apply(store, args))]),
  ) as T;
}
