import { type Kysely, sql } from "kysely";

/** Faults of GPUs. Comments on columns stand in store/schema/node-facts.ts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table gpu_cordon (
      host_id text not null references host on delete cascade,
      gpu_uuid text not null,
      fault_id text not null,
      reason text not null,
      cordoned_at timestamptz not null default now(),
      lifted_at timestamptz,
      primary key (host_id, gpu_uuid, fault_id)
    )`.execute(db);
}
