import { type Kysely, sql } from "kysely";

/** Hosts that an operator takes out of use. Comments on columns stand in store/schema/host-operations.ts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table host_operation (
      host_id text primary key references host on delete cascade,
      kind text not null check (kind in ('cordon', 'drain')),
      note text not null default '',
      instances integer not null default 0,
      began_at timestamptz not null default now(),
      deadline_at timestamptz,
      check ((kind = 'drain') = (deadline_at is not null))
    )`.execute(db);
}
