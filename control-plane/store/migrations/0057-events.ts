import { type Kysely, sql } from "kysely";

/**
 * Events of deployments and hosts, written by triggers, so that every writer's changes are in them, also those of an older control
 * plane. Row triggers with a condition cost nothing for the frequent writes (claims, reports); placements insert many instances
 * at once, so they have a statement trigger.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table event (
      event_id bigint generated always as identity primary key,
      at timestamptz not null default now(),
      kind text not null,
      account_id text,
      deploy_id text,
      instance_id text,
      host_id text,
      gpu_uuid text,
      state text not null default '',
      reason text not null default ''
    )`.execute(db);
  await sql`create index event_of_deployment on event (deploy_id, event_id) where deploy_id is not null`.execute(db);
  await sql`create index event_of_host on event (host_id, event_id) where host_id is not null`.execute(db);
  await sql`create index event_of_host_itself on event (host_id, event_id) where host_id is not null and instance_id is null`.execute(
    db,
  );
  await sql`create index event_of_kind on event (kind, event_id)`.execute(db);
  await sql`create index event_of_account on event (account_id, event_id) where account_id is not null`.execute(db);

  await sql`
    create function note_deployment() returns trigger language plpgsql as $$
    begin
      if tg_op = 'INSERT' then
        insert into event (kind, account_id, deploy_id, state)
          values ('deployment.created', new.account_id, new.deploy_id, new.status);
        return null;
      end if;
      if new.spec <> old.spec then
        insert into event (kind, account_id, deploy_id, state)
          values ('deployment.specified', new.account_id, new.deploy_id, new.spec::text);
      end if;
      if new.update_error <> '' and new.update_error <> old.update_error then
        insert into event (kind, account_id, deploy_id, reason)
          values ('deployment.reverted', new.account_id, new.deploy_id, left(new.update_error, 500));
      end if;
      if new.target <> old.target then
        insert into event (kind, account_id, deploy_id, state)
          values ('deployment.scaled', new.account_id, new.deploy_id, new.target::text);
      end if;
      if new.status <> old.status then
        insert into event (kind, account_id, deploy_id, state, reason)
          values ('deployment.' || new.status, new.account_id, new.deploy_id, new.status, left(new.fail_reason, 500));
      end if;
      return null;
    end $$`.execute(db);
  await sql`
    create trigger note_created after insert on deployment for each row execute function note_deployment()`.execute(db);
  await sql`
    create trigger note_changed after update on deployment for each row
      when (new.status <> old.status or new.target <> old.target or new.spec <> old.spec or new.update_error <> old.update_error)
      execute function note_deployment()`.execute(db);

  await sql`
    create function note_placed() returns trigger language plpgsql as $$
    begin
      insert into event (kind, account_id, deploy_id, instance_id, host_id)
        select 'instance.placed', account_id, deploy_id, instance_id, host_id from added;
      return null;
    end $$`.execute(db);
  await sql`
    create trigger note_placed after insert on instance referencing new table as added
      for each statement execute function note_placed()`.execute(db);
  // A host decides how often its instances change their phase: at most 300 events of instances in a minute are kept.
  await sql`
    create function note_instance() returns trigger language plpgsql as $$
    declare
      earlier timestamptz;
    begin
      if old.tombstoned_at is null and new.tombstoned_at is not null then
        insert into event (kind, account_id, deploy_id, instance_id, host_id, state)
          values ('instance.removed', new.account_id, new.deploy_id, new.instance_id, new.host_id, new.phase);
        return null;
      end if;
      select at into earlier from event where host_id = new.host_id and instance_id is not null and kind <> 'instance.placed'
        order by event_id desc offset 299 limit 1;
      if earlier > now() - interval '1 minute' then
        return null;
      end if;
      if new.restarts > old.restarts then
        insert into event (kind, account_id, deploy_id, instance_id, host_id, state, reason)
          values ('instance.restarted', new.account_id, new.deploy_id, new.instance_id, new.host_id, new.restarts::text,
            left(concat_ws(': ', nullif(new.fail_code, ''), nullif(new.fail_message, '')), 300));
      end if;
      if new.phase <> old.phase then
        insert into event (kind, account_id, deploy_id, instance_id, host_id, state, reason)
          values ('instance.' || new.phase, new.account_id, new.deploy_id, new.instance_id, new.host_id, new.phase,
            left(concat_ws(': ', nullif(new.fail_code, ''), nullif(new.fail_message, '')), 300));
      end if;
      return null;
    end $$`.execute(db);
  await sql`
    create trigger note_instance after update on instance for each row
      when (new.phase <> old.phase or new.restarts > old.restarts
        or (old.tombstoned_at is null and new.tombstoned_at is not null))
      execute function note_instance()`.execute(db);

  await sql`
    create function host_event_is_due(host text, wanted text) returns boolean language sql stable as $$
      select coalesce((
        select at < now() - interval '1 minute' from event
        where host_id = host and instance_id is null and kind = wanted
        order by event_id desc offset 19 limit 1), true)
    $$`.execute(db);
  // A host also decides how often its agent starts and its data path fails: at most 20 events of each kind in a minute are kept.
  await sql`
    create function note_host() returns trigger language plpgsql as $$
    declare
      usable text := case when new.condition = '' then 'host.usable' else 'host.unusable' end;
    begin
      if tg_op = 'INSERT' then
        insert into event (kind, host_id, state) values ('host.joined', new.host_id, new.agent_version);
        return null;
      end if;
      if new.run_id <> old.run_id and host_event_is_due(new.host_id, 'host.agent_started') then
        insert into event (kind, host_id, state) values ('host.agent_started', new.host_id, new.agent_version);
      end if;
      if new.condition <> old.condition and host_event_is_due(new.host_id, usable) then
        insert into event (kind, host_id, reason) values (usable, new.host_id, left(new.condition, 300));
      end if;
      if new.identity_alert <> '' and old.identity_alert = '' then
        insert into event (kind, host_id, reason) values ('host.cloned', new.host_id, left(new.identity_alert, 500));
      end if;
      return null;
    end $$`.execute(db);
  await sql`create trigger note_joined after insert on host for each row execute function note_host()`.execute(db);
  await sql`
    create trigger note_changed after update on host for each row
      when (new.run_id <> old.run_id or new.condition <> old.condition or new.identity_alert <> old.identity_alert)
      execute function note_host()`.execute(db);

  await sql`
    create function note_operation() returns trigger language plpgsql as $$
    begin
      if tg_op = 'DELETE' then
        insert into event (kind, host_id) values ('host.uncordoned', old.host_id);
        return null;
      end if;
      insert into event (kind, host_id, reason)
        values (case new.kind when 'drain' then 'host.draining' else 'host.cordoned' end, new.host_id, left(new.note, 500));
      return null;
    end $$`.execute(db);
  await sql`
    create trigger note_operation after insert or update or delete on host_operation for each row
      execute function note_operation()`.execute(db);

  await sql`
    create function note_gpu() returns trigger language plpgsql as $$
    begin
      insert into event (kind, host_id, gpu_uuid, reason)
        values (case when new.lifted_at is null then 'gpu.cordoned' else 'gpu.uncordoned' end, new.host_id, new.gpu_uuid,
          left(new.reason, 300));
      return null;
    end $$`.execute(db);
  await sql`
    create trigger note_cordoned after insert on gpu_cordon for each row execute function note_gpu()`.execute(db);
  await sql`
    create trigger note_lifted after update on gpu_cordon for each row
      when (old.lifted_at is null and new.lifted_at is not null) execute function note_gpu()`.execute(db);
}
