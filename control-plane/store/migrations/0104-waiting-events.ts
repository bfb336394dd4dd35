import { type Kysely, sql } from "kysely";

/** Events of the reasons for which an instance does not start yet: its cluster does not place it, its image cannot be pulled. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql.raw(text).execute(db);
}

// The event of a new phase has its reason. Some reasons take turns while an instance waits, and a host decides how often they change:
// each is noted once in half an hour, and at most 20 of an instance.
const text = `
create index event_of_wait on event (instance_id, event_id) where kind = 'instance.waiting';
create function note_wait() returns trigger language plpgsql as $$
declare
  said text := left(new.fail_message, 300);
  noted int;
  is_known boolean;
begin
  select count(*), coalesce(bool_or(reason = said), false) into noted, is_known from event
    where kind = 'instance.waiting' and instance_id = new.instance_id and at > now() - interval '30 minutes';
  if not is_known and noted < 20 then
    insert into event (kind, account_id, deploy_id, instance_id, host_id, state, reason)
      values ('instance.waiting', new.account_id, new.deploy_id, new.instance_id, new.host_id, new.phase, said);
  end if;
  return null;
end $$;
create trigger note_wait after update on instance for each row
  when (new.phase = old.phase and new.fail_code = '' and new.fail_message <> '' and new.fail_message <> old.fail_message and new.tombstoned_at is null)
  execute function note_wait();
`;
