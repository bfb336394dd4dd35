// Months of use and payments of an account as settlements wrote them, and the invoices of the months that ended.
import { randomBytes } from "node:crypto";
import { pino } from "pino";
import { createManualPayments } from "../../control-plane/payments/manual.ts";
import { openDatabase } from "../../control-plane/store/core/database.ts";
import { ensureMoneyMonths } from "../../control-plane/store/money/money-months.ts";
import { createBilling } from "../../control-plane/wiring/billing.ts";
import { query } from "../e2e/spine/database.ts";

const dayMs = 86_400_000;
const log = pino({ level: "silent" });

export interface SpentMoney {
  /** Counted back from today, which is included. */
  readonly days: number;
  readonly models: readonly string[];
  /** Nano-USD of one model on one day, before it is varied by day and model. */
  readonly dailyNanoUsd: bigint;
}

/** Writes one request a day and model. The account's funds shrink by what is spent. */
export async function spendMoney(
  databaseUrl: string,
  account: string,
  { days, models, dailyNanoUsd }: SpentMoney,
): Promise<void> {
  const { db, close } = openDatabase(databaseUrl, { maxConnections: 2, log });
  const now = new Date();
  for (let atMs = now.getTime() - days * dayMs; atMs <= now.getTime(); atMs += 27 * dayMs)
    await ensureMoneyMonths(db, new Date(atMs));
  await query(
    databaseUrl,
    `with spent as (
       select 'spent' || substr(md5(random()::text), 1, 19) as id, model, now() - make_interval(days => day) as at, key.token_id,
         (${dailyNanoUsd} * (60 + 25 * sin(day * 0.9 + number) + 15 * ((day * 7 + number * 3) % 5)) / 100)::bigint as cost
       from generate_series(0, $2::int - 1) day, unnest($3::text[]) with ordinality m (model, number),
         (select token_id from api_key where account_id = $1 order by created_at limit 1) key
     ), used as (
       insert into usage (request_id, attempt, admitted_at, account_id, key_id, replica_id, model, deploy_id, instance_id, node_epoch,
         lease_ids, hold, input_tokens, cached_input_tokens, output_tokens, reasoning_tokens, source, end_reason, price_version,
         input_rate, cached_input_rate, output_rate, cost, charge, queue_ms, first_byte_ms, total_ms, ended_at, settled_at)
       select id, 1, at, $1, token_id, 'replica', model, 'deployment', 'instance', 1, '{}', cost, cost / 2000, 0, cost / 2000, 0,
         'engine', 'stop', 1, 1000000000, 1000000000, 1000000000, cost, cost, 4, 120, 900, at, at from spent
     ), posted as (
       insert into ledger_entry (transaction_id, book, account_id, amount, kind, request_id, attempt, key_id, model, price_version, posted_at)
       select id, book, $1, sign * cost, 'capture', id, 1, token_id, model, 1, at
       from spent, (values ('customer_available', -1), ('customer_spent', 1)) as books (book, sign)
     )
     update budget set spent = spent + (select sum(cost) from spent)::bigint where budget_id = 'account/' || $1`,
    [account, days, models],
  );
  await query(
    databaseUrl,
    `insert into budget (budget_id, account_id, scope, spent)
     select 'account-month/' || $1 || '/' || to_char(now() at time zone 'UTC', 'YYYYMM'), $1, 'account_month', coalesce(sum(charge), 0)
       from usage where account_id = $1 and settled_at >= date_trunc('month', now(), 'UTC')
     on conflict (budget_id) do update set spent = excluded.spent`,
    [account],
  );
  await query(databaseUrl, "select rebuild_usage_months()");
  await query(databaseUrl, "update account set created_at = least(created_at, $2) where account_id = $1", [
    account,
    new Date(now.getTime() - days * dayMs),
  ]);
  // A month that is closed gets no further invoices.
  await query(databaseUrl, "delete from billing_month");
  const billing = createBilling({ db, provider: createManualPayments(), invoiceLinkKey: randomBytes(32), log });
  await billing.closeMonths();
  await billing.updateStatus(account as never);
  await close();
}
