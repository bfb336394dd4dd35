import { type Kysely, sql } from "kysely";

/** Price of a GPU type for the time in which an instance sleeps; without one this time is free. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table price drop constraint price_kind_check,
      add constraint price_kind_check check (kind in ('model', 'gpu', 'gpu_asleep', 'container'))`.execute(db);
}
