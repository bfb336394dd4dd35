import { type Kysely, sql } from "kysely";

/** Money reserved for GPU time. Comments on columns stand in store/schema/gpu-time.ts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table gpu_hold (
      instance_id text primary key,
      deploy_id text not null,
      account_id text not null references account,
      host_id text,
      gpu_share double precision not null default 1,
      covered tstzmultirange not null default '{}',
      settled_until timestamptz not null default to_timestamp(0),
      lease_id text,
      ended_at timestamptz
    )`.execute(db);
  await sql`create index gpu_hold_open on gpu_hold (instance_id) where ended_at is null`.execute(db);
  await sql`create index gpu_hold_ended on gpu_hold (ended_at) where lease_id is not null`.execute(db);
}
