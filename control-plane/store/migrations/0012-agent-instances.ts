import { type Kysely, sql } from "kysely";

/** Agent instances and the backups of their volumes. Comments on columns stand in store/schema/agent-instances.ts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table agent_instance (
      deploy_id text primary key references deployment,
      account_id text not null references account,
      agent_type text not null,
      plan_id text not null,
      version text not null,
      image text not null,
      port integer not null,
      volume_path text not null,
      vcpu double precision not null,
      ram_bytes bigint not null,
      hour_rate bigint not null check (hour_rate >= 0),
      started_at timestamptz not null default now(),
      was_stopped boolean not null default false,
      operation text check (operation in ('backup', 'restore', 'try_restore')),
      operation_backup text,
      operation_command text,
      operation_at timestamptz,
      last_backup_at timestamptz,
      last_fault text not null default '',
      removal_command text,
      volume_removed_at timestamptz,
      check ((operation is null) = (operation_command is null))
    )`.execute(db);
  await sql`create index agent_instance_account on agent_instance (account_id)`.execute(db);
  await sql`create index agent_instance_operation on agent_instance (operation_command)
    where operation_command is not null`.execute(db);
  await sql`
    create table instance_backup (
      backup_id text primary key,
      deploy_id text not null references agent_instance,
      account_id text not null,
      is_scheduled boolean not null,
      state text not null check (state in ('creating', 'ready', 'failed', 'deleting')),
      blob_key text not null,
      made_by_command text,
      sha256 text not null default '',
      size_bytes bigint not null default 0,
      fault text not null default '',
      created_at timestamptz not null default now(),
      finished_at timestamptz,
      removal_command text
    )`.execute(db);
  await sql`create index instance_backup_of on instance_backup (deploy_id, created_at)`.execute(db);
  await sql`create index instance_backup_failed on instance_backup (finished_at) where state = 'failed'`.execute(db);
}
