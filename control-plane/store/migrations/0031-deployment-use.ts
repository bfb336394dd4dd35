import { type Kysely, sql } from "kysely";

/** When a deployment was last in use; and which GPUs accounts begin to share. Comments stand in store/schema/deployments.ts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table deployment add column used_at timestamptz`.execute(db);
  // Nobody noted use until now: what runs may be busy.
  await sql`update deployment set used_at = now() where deleted_at is null`.execute(db);
  await sql`create table gpu_sharing (
    account_id text not null references account on delete cascade,
    gpu text not null,
    revision bigint not null,
    primary key (account_id, gpu)
  )`.execute(db);
}
