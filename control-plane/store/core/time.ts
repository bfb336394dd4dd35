import { type RawBuilder, sql } from "kysely";

export const now = sql<Date>`now()`;

/** A number of milliseconds as an interval. */
export const interval = (ms: number): RawBuilder<unknown> => sql`make_interval(secs => ${ms / 1000})`;

/** A `timestamptz` column as Unix milliseconds; `epochMs<null>` for a column that may be null. */
export const epochMs = <Absent extends null = never>(column: string): RawBuilder<number | Absent> =>
  sql<number | Absent>`floor(extract(epoch from ${sql.ref(column)}) * 1000)::float8`;
