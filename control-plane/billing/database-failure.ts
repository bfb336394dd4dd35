// Kinds of failures of a write. They decide whether it is repeated, and whether one of its rows may be the cause.
import { DatabaseUnavailable } from "../service-error.ts";

/** Internal errors of groups with a record after which the group is split, because one row may be their cause. */
export const maxInternalErrors = 5;

/** A value that PostgreSQL never accepts: SQLSTATE class 22, data exceptions. */
export function isRefusedValue(error: unknown): boolean {
  return error instanceof Error && "code" in error && /^22...$/.test(String(error.code));
}

/** PostgreSQL ran the statement and reports an internal failure, which a single row may cause. */
export const isInternalError = (error: unknown): boolean =>
  error instanceof DatabaseUnavailable && error.params.reason === "failing";

/** Consecutive outages that count as one of the database. */
const maxOutages = 3;

/** Outages in work that is done account by account. A single one may be of an account whose rows exceed the statement limit. */
export class OutageStreak {
  #count = 0;

  succeeded(): void {
    this.#count = 0;
  }

  /** Throws `outage` if the database is the cause: the accounts before it failed too. */
  failed(outage: unknown): void {
    this.#count += 1;
    if (this.#count >= maxOutages) throw outage;
  }
}

/** PostgreSQL is unavailable: no row is the cause. */
export const isOutage = (error: unknown): boolean => error instanceof DatabaseUnavailable && !isInternalError(error);
