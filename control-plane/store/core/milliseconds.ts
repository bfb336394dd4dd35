import { type RawBuilder, sql } from "kysely";

/** As an interval. */
export const ms = (count: number): RawBuilder<unknown> => sql`make_interval(secs => ${count / 1000})`;
