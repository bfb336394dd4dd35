import { type Kysely, sql } from "kysely";

/**
 * Refuses GPU time by which an instance would be awake and asleep for more than 60 seconds of one minute. Two settlements that
 * read the minute at the same time each see none of the other; `settle` holds the account's budget when it writes, so the second one
 * finds the first one's row here. The agent sends the refused minutes again, which are then limited to what is left.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create function refuse_shared_minute() returns trigger language plpgsql as $$
    begin
      if exists (select from usage u
        where u.request_id = case when new.request_id like '%:asleep' then left(new.request_id, -7) else new.request_id || ':asleep' end
          and u.attempt = new.attempt and u.admitted_at = new.admitted_at and u.total_ms + new.total_ms > 60000)
      then
        raise exception 'the minute of % has more than 60 seconds awake and asleep', new.request_id using errcode = '23P01';
      end if;
      return new;
    end $$`.execute(db);
  await sql`
    create trigger refuse_shared_minute before insert on usage for each row when (new.gpu_ms > 0)
      execute function refuse_shared_minute()`.execute(db);
}
