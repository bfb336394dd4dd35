import { type Kysely, sql } from "kysely";

/** LoRA adapters. Comments on columns stand in store/schema/adapters.ts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table adapter (
      adapter_id text primary key,
      account_id text not null references account,
      name text not null,
      base_deploy_id text not null references deployment,
      base_model text not null,
      is_base_public boolean not null,
      repo text not null,
      revision text not null,
      token bytea,
      is_private boolean not null default true,
      description text not null default '',
      status text not null default 'initializing'
        check (status in ('initializing', 'downloading', 'deploying', 'deployed', 'failed', 'deleted')),
      fail_reason text not null default '',
      is_wanted boolean not null default true,
      used_at timestamptz not null default now(),
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now()
    )`.execute(db);
  // One that failed gives its name to a new one.
  await sql`create unique index adapter_name on adapter (account_id, name)
    where status not in ('deleted', 'failed')`.execute(db);
  await sql`create index adapter_base on adapter (base_deploy_id) where status not in ('deleted', 'failed')`.execute(
    db,
  );
  await sql`alter table instance add column adapters text[] not null default '{}'`.execute(db);
}
