import { type Kysely, sql } from "kysely";

/**
 * How many bytes each account's webhook calls keep, counted by the database itself as rows come, are emptied and go. What a call
 * said may be let go before its record is.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`create table webhook_kept (account_id text primary key, bytes bigint not null)`.execute(db);
  await sql`alter table webhook_delivery alter column body drop not null`.execute(db);
  await sql`alter table webhook_delivery add check (body is not null or state <> 'pending')`.execute(db);
  await sql`
    insert into webhook_kept
    select account_id, sum(octet_length(body) + coalesce(octet_length(results), 0)) from webhook_delivery group by 1`.execute(
    db,
  );
  await sql`
    create function note_webhook_kept() returns trigger language plpgsql as $$
    declare owner text; change bigint := 0;
    begin
      if tg_op <> 'INSERT' then
        owner := old.account_id;
        change := change - coalesce(octet_length(old.body), 0) - coalesce(octet_length(old.results), 0);
      end if;
      if tg_op <> 'DELETE' then
        owner := new.account_id;
        change := change + coalesce(octet_length(new.body), 0) + coalesce(octet_length(new.results), 0);
      end if;
      insert into webhook_kept values (owner, change)
        on conflict (account_id) do update set bytes = webhook_kept.bytes + excluded.bytes;
      return null;
    end $$`.execute(db);
  await sql`
    create trigger webhook_delivery_kept after insert or delete or update of body, results on webhook_delivery
    for each row execute function note_webhook_kept()`.execute(db);
}
