import { type Kysely, sql } from "kysely";

/** Incidents, open and ended, written by a repeated job; and events of hosts that fall silent, are lost and return. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table incident (
      incident_id bigint generated always as identity primary key,
      kind text not null,
      subject text not null,
      severity smallint not null,
      summary text not null,
      advice text not null default '',
      account_id text,
      deploy_id text,
      host_id text,
      gpu_uuid text,
      began_at timestamptz not null default now(),
      seen_at timestamptz not null default now(),
      ended_at timestamptz
    )`.execute(db);
  await sql`create unique index incident_open on incident (kind, subject) where ended_at is null`.execute(db);
  await sql`create index incident_ended on incident (ended_at, incident_id) where ended_at is not null`.execute(db);
  await sql`create index incident_subject on incident (kind, subject, ended_at)`.execute(db);

  await sql`create index webhook_delivery_exhausted on webhook_delivery (finished_at) where state = 'exhausted'`.execute(
    db,
  );

  await sql`
    create function note_silence() returns trigger language plpgsql as $$
    declare
      noted text := case
        when new.ended_at is not null then 'host.returned'
        when new.severity = 3 then 'host.lost'
        else 'host.silent' end;
    begin
      -- A host that an operator removed or revoked does not return.
      if noted = 'host.returned' and not exists (select from host where host_id = new.host_id and seen_at > now() - interval '1 minute') then
        return null;
      end if;
      if host_event_is_due(new.host_id, noted) then
        insert into event (kind, host_id, reason)
          values (noted, new.host_id, case when new.ended_at is null then left(new.summary, 300) else '' end);
      end if;
      return null;
    end $$`.execute(db);
  await sql`
    create trigger note_silence after insert on incident for each row when (new.kind = 'host_silent')
      execute function note_silence()`.execute(db);
  await sql`
    create trigger note_silence_changed after update on incident for each row
      when (new.kind = 'host_silent' and ((new.ended_at is null) <> (old.ended_at is null) or new.severity > old.severity))
      execute function note_silence()`.execute(db);
}
