import { type Kysely, sql } from "kysely";

/** Why a charge failed, and names that are taken in whatever letters. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table charge add column cause text`.execute(db);
  await sql`create index charge_account on charge (account_id, created_at)`.execute(db);
  await sql`
    do $$ declare twice text;
    begin
      select string_agg(names, '; ') into twice from (
        select string_agg(display_name, ', ' order by created_at) as names from account
        group by lower(display_name) having count(*) > 1) found;
      if twice is not null then
        raise exception 'display names differ by case alone (%): give all but one of each another display_name, then start again', twice;
      end if;
    end $$`.execute(db);
  await sql`create unique index account_display_name_folded on account (lower(display_name))`.execute(db);
}
