import { isOutage } from "./database-failure.ts";

/** Rows that were not written, each in one list. */
export interface Unwritten<Row> {
  /** Rows that failed alone, with the error. */
  readonly failed: readonly (readonly [row: Row, error: unknown])[];
  /** Rows that were not tried alone, because PostgreSQL became unavailable. */
  readonly untried: readonly Row[];
  /** That outage. */
  readonly outage?: unknown;
}

/**
 * Writes the halves of a group that failed with `error`, and theirs, so that an invalid row does not stop the others. Call it with
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
    const half = Math.ceil(rows.length / 2);
    for (const part of [rows.slice(0, half), rows.slice(half)]) {
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
