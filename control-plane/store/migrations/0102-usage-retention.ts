import { type Kysely, sql } from "kysely";

/** Notes which usage records retention has removed, so that sums are not computed again without them. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql.raw(text).execute(db);
}

const text = `
-- At most one row.
create table usage_retention (
  expired_before timestamptz not null,
  is_only boolean primary key default true check (is_only)
);

alter function rebuild_usage_days() rename to rebuild_usage_days_of_all;
create function rebuild_usage_days() returns void language plpgsql as $$
declare expired timestamptz;
begin
  select expired_before into expired from usage_retention;
  if expired is not null then
    raise exception 'usage records from before % have expired, so sums cannot be computed from them', expired;
  end if;
  perform rebuild_usage_days_of_all();
end $$;
`;
