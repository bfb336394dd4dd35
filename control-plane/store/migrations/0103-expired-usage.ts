import { type Kysely, sql } from "kysely";

/** Refuses usage records older than those that retention has removed: nothing shows any more whether they were billed. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql.raw(text).execute(db);
}

// Months that retention removed have no partition, so their records go to the default one. Others never run the trigger.
const text = `
create function refuse_expired_usage() returns trigger language plpgsql as $$
declare expired timestamptz;
begin
  select expired_before into expired from usage_retention;
  if new.admitted_at < expired then
    -- Class 22, a refused value: an outage would be retried.
    raise exception 'usage records from before % have expired', expired using errcode = '22008';
  end if;
  return new;
end $$;
create trigger refuse_expired before insert on usage_other for each row execute function refuse_expired_usage();
`;
