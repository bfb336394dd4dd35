import { type Kysely, sql } from "kysely";

/** Formats besides chat that the engine of an instance speaks, as its host reports them. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table instance add formats text[] not null default '{}'`.execute(db);
}
