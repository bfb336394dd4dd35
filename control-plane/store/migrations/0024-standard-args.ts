import { type Kysely, sql } from "kysely";

/** Settings of engines by the interface's own names; what they come to stands among extra_args. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table deployment add column standard_args jsonb not null default '{}'`.execute(db);
  await sql`alter table deployment_spec add column standard_args jsonb not null default '{}'`.execute(db);
}
