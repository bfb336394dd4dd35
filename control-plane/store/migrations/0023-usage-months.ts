import { type Kysely, sql } from "kysely";
import { createSettlementFunctions } from "./settlement-functions.ts";
import { rebuildUsageMonths } from "./usage-month-sql.ts";

/** The use of each account by month, kept by the settlements themselves. Comments on columns stand in store/schema/money.ts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table usage_month (
      account_id text not null,
      month integer not null,
      key_id text not null,
      model text not null,
      price_version bigint not null,
      discount_id text not null,
      deploy_id text not null,
      records bigint not null,
      entries bigint not null,
      cost bigint not null,
      tokens bigint not null,
      gpu_ms bigint not null,
      characters bigint not null,
      audio_ms bigint not null,
      images bigint not null,
      image_milli bigint not null,
      primary key (account_id, month, key_id, model, price_version, discount_id)
    ) with (fillfactor = 50)`.execute(db);
  await createSettlementFunctions(db);
  await sql`
    create function rebuild_usage_months() returns void language sql as $$
      lock table usage, ledger_entry, usage_month in share row exclusive mode;
      ${sql.raw(rebuildUsageMonths)}
    $$`.execute(db);
  await sql`select rebuild_usage_months()`.execute(db);
}
