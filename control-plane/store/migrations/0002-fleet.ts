import { type Kysely, sql } from "kysely";

/** What a host last reported of leases, which generation an instance runs, and one instance per GPU. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table host
    add column open_lease_ids text[] not null default '{}',
    add column reported_at timestamptz`.execute(db);
  await sql`alter table instance add column observed_generation integer not null default 0`.execute(db);
  // The last wall against a double allocation, whatever the code above it does.
  await sql`create unique index gpu_claim_exclusive on gpu_claim (host_id, gpu_uuid)`.execute(db);
}
