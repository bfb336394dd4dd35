import { isOutage } from "./database-failure.ts";

/** One invalid row of 500 costs 24 attempts, and 500 of 500 cost 572; with halves 18 and 998. */
const partCount = 8;

/** Rows that were not written, each in one list. */
export interface Unwritten<Row> {
  /** Rows that failed alone, with the error. */
  readonly failed: readonly (readonly [row: Row, error: unknown])[];
  /** Rows that were not tried alone, because PostgreSQL became unavailable. */
  readonly untried: readonly Row[];
  /** Error of the attempt at which PostgreSQL became unavailable. */
  readonly outage?: unknown;
}

/**
 * Writes the parts of a group that failed with `error`, and theirs, so that an invalid row does not stop the others. Call it with
 * a group of one or more rows for an error that a single row may cause. `attempt` returns why it failed; undefined: all are written.
 */
export async function writeApart<Row>(
  group: readonly Row[],
  error: unknown,
  attempt: (rows: readonly Row[]) => Promise<unknown>,
): Promise<Unwritten<Row>> {
  const failed: (readonly [Row, unknown])[] = [];
  const untried: Row[] = [];
  let outage: unknown;

  async function split(rows: readonly Row[], failure: unknown): Promise<void> {
    const [first] = rows;
    if (first !== undefined && rows.length === 1) {
      failed.push([first, failure]);
      return;
    }
    const size = Math.ceil(rows.length / partCount);
    for (let at = 0; at < rows.length; at += size) {
      const part = rows.slice(at, at + size);
      const again = outage === undefined ? await attempt(part) : outage;
      if (again === undefined) continue;
      if (isOutage(again)) {
        outage = again;
        untried.push(...part);
      } else await split(part, again);
    }
  }

  await split(group, error);
  return outage === undefined ? { failed, untried } : { failed, untried, outage };
}
