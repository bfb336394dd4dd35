import { type Kysely, sql } from "kysely";

/** Deployments, their instances and the GPUs they hold. Comments on columns stand in store/schema/deployments.ts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table deployment (
      deploy_id text primary key,
      account_id text not null references account,
      kind text not null default 'model' check (kind in ('model', 'container', 'agent_instance')),
      model_name text not null,
      version text not null,
      task text not null,
      type text not null,
      engine text not null,
      status text not null,
      fail_reason text not null default '',
      gpu text not null,
      num_gpus integer not null,
      max_batch_size integer not null,
      min_instances integer not null,
      max_instances integer not null,
      weights jsonb not null,
      weights_token bytea,
      container jsonb,
      extra_args text[] not null default '{}',
      image text not null default '',
      external_url text,
      context_length integer not null default 0,
      memory_bytes bigint not null default 0,
      memory_bound boolean not null default false,
      price_subject text,
      pending_reasons jsonb not null default '[]',
      generation integer not null default 1,
      revision bigint not null default 0,
      lock_owner text,
      lock_token bigint not null default 0,
      lock_expires_at timestamptz,
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now(),
      deleted_at timestamptz
    )`.execute(db);
  await sql`create unique index deployment_name on deployment (account_id, kind, model_name)
    where status not in ('deleted', 'failed')`.execute(db);
  await sql`create table public_model (
      model_name text primary key,
      deploy_id text not null references deployment,
      description text not null default '',
      created_at timestamptz not null default now()
    )`.execute(db);
  await sql`
    create table instance (
      instance_id text primary key,
      deploy_id text not null references deployment,
      account_id text not null,
      host_id text not null references host,
      generation integer not null,
      observed_generation integer not null default 0,
      gpu_uuids text[] not null,
      gpu_share double precision not null default 1 check (gpu_share > 0 and gpu_share <= 1),
      gpu_memory_bytes bigint not null default 0,
      granted_bytes bigint not null default 0,
      phase text not null default 'pending',
      fail_code text not null default '',
      fail_message text not null default '',
      bytes_done bigint not null default 0,
      bytes_total bigint not null default 0,
      restarts integer not null default 0,
      context_length integer not null default 0,
      identity text not null default '',
      ssh_port integer not null default 0,
      ssh_address text not null default '',
      tombstoned_at timestamptz,
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now()
    )`.execute(db);
  await sql`create index instance_host on instance (host_id)`.execute(db);
  await sql`create index instance_deployment on instance (deploy_id)`.execute(db);
  await sql`create table ended_instance (
      instance_id text primary key,
      host_id text not null references host on delete cascade,
      ended_at timestamptz not null default now(),
      seen_again_at timestamptz
    )`.execute(db);
  await sql`create index ended_instance_host on ended_instance (host_id) where seen_again_at is not null`.execute(db);
  await sql`create index ended_instance_age on ended_instance (ended_at)`.execute(db);
  // The last walls against a double allocation, whatever the code above them does: one account per GPU, and never more of
  // it than there is.
  await sql`create table gpu_claim (
      host_id text not null references host,
      gpu_uuid text not null,
      account_id text not null,
      memory_bytes bigint not null,
      claimed_bytes bigint not null,
      constraint gpu_claim_exclusive primary key (host_id, gpu_uuid),
      constraint gpu_claim_account unique (host_id, gpu_uuid, account_id),
      constraint gpu_claim_room check (claimed_bytes <= memory_bytes)
    )`.execute(db);
  await sql`create table gpu_share (
      host_id text not null,
      gpu_uuid text not null,
      instance_id text not null references instance on delete cascade,
      account_id text not null,
      memory_bytes bigint not null,
      primary key (instance_id, gpu_uuid),
      foreign key (host_id, gpu_uuid, account_id) references gpu_claim (host_id, gpu_uuid, account_id)
    )`.execute(db);
  await sql`create index gpu_share_gpu on gpu_share (host_id, gpu_uuid)`.execute(db);
  // Shares go with their instance, by whatever way that goes.
  await sql`create function release_gpu_share() returns trigger language plpgsql as $$
    begin
      update gpu_claim set claimed_bytes = claimed_bytes - old.memory_bytes
        where host_id = old.host_id and gpu_uuid = old.gpu_uuid;
      delete from gpu_claim c where c.host_id = old.host_id and c.gpu_uuid = old.gpu_uuid
        and not exists (select from gpu_share s where s.host_id = c.host_id and s.gpu_uuid = c.gpu_uuid);
      return null;
    end $$`.execute(db);
  await sql`create trigger gpu_share_released after delete on gpu_share
    for each row execute function release_gpu_share()`.execute(db);
}
