import { type Kysely, sql } from "kysely";

/** Hosts. Comments on columns stand in store/schema/fleet.ts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`create sequence node_epoch`.execute(db);
  await sql`
    create table host (
      host_id text primary key,
      hostname text not null,
      advertise text not null,
      inventory jsonb not null,
      node_epoch bigint not null,
      generation bigint not null default 0,
      revision bigint not null default 0,
      ticket_key bytea not null,
      schedulable boolean not null default false,
      condition text not null default '',
      agent_version text not null,
      run_id text not null default '',
      run_began_at timestamptz not null default now(),
      superseded_runs text[] not null default '{}',
      behind_epoch bigint,
      behind_generation bigint not null default 0,
      identity_alert text not null default '',
      unknown_instances jsonb not null default '[]',
      open_lease_ids text[] not null default '{}',
      reported_at timestamptz,
      live jsonb,
      kept_weights text[] not null default '{}',
      seen_at timestamptz not null default now(),
      created_at timestamptz not null default now()
    )`.execute(db);
}
