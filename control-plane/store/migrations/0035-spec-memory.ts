import { type Kysely, sql } from "kysely";

/** What instances claim follows what they run. Until now it was of the first spec; control planes of that version go on so. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table deployment add column memory_spec integer not null default 1`.execute(db);
  await sql`alter table deployment_spec add column memory_bytes bigint, add column memory_bound boolean`.execute(db);
  await sql`update deployment_spec s set memory_bytes = d.memory_bytes, memory_bound = d.memory_bound and s.spec = 1
    from deployment d where d.deploy_id = s.deploy_id`.execute(db);
}
