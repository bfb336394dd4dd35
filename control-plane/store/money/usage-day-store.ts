import { type RawBuilder, sql } from "kysely";
import type { AccountId, KeyId } from "../../../proto/ids.ts";
import type { UsageDayStore } from "../../billing/store.ts";
import { asked, tooLong } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";

interface DayRow {
  readonly day: Date;
  readonly name: string;
  readonly keyId: string | null;
  readonly lim: bigint | null;
  readonly requests: bigint | null;
  readonly input: string | null;
  readonly output: string | null;
  readonly cost: bigint | null;
}

export function createUsageDayStore(db: Db): UsageDayStore {
  return asked<UsageDayStore>({
    async dayUse(account, by, fromMs, toMs, max) {
      const range = { from: new Date(fromMs).toISOString(), to: new Date(toMs).toISOString() };
      const query =
        by === "token"
          ? byToken(account, range, max)
          : by === "user"
            ? byUser(account, range, max)
            : byLedger(account, by, range, max);
      const { rows } = await query.execute(db).catch(tooLong("Summing the use of these days"));
      return rows.map((row) => ({
        dayMs: row.day.getTime(),
        of: row.name,
        key: row.keyId === null ? undefined : (row.keyId as KeyId),
        limit: row.lim,
        requests: Number(row.requests ?? 0),
        inputTokens: Number(row.input ?? 0),
        outputTokens: Number(row.output ?? 0),
        cost: row.cost ?? 0n,
      }));
    },

    keysOf: (account) =>
      db.selectFrom("apiKey").select(["tokenId as key", "name"]).where("accountId", "=", account).execute(),
  });
}

interface Range {
  readonly from: string;
  readonly to: string;
}

/** Money is summed from the ledger, units from the records; both by time of posting, as months and invoices are. */
function byLedger(
  account: AccountId,
  by: "model" | "key" | "model_and_key",
  { from, to }: Range,
  max: number,
): RawBuilder<DayRow> {
  const column = sql.ref(by === "key" ? "keyId" : "model");
  const key = by === "model_and_key" ? sql`coalesce(key_id, '')` : sql`null::text`;
  return sql<DayRow>`
    with money as (
      select date_trunc('day', posted_at, 'UTC') as day, coalesce(${column}, '') as name, ${key} as key_id, sum(amount)::bigint as cost
      from ledger_entry
      where account_id = ${account} and book = 'customer_spent' and kind <> 'invoice'
        and posted_at >= ${from}::timestamptz and posted_at < ${to}::timestamptz
      group by 1, 2, 3
    ), counted as (
      select date_trunc('day', settled_at, 'UTC') as day, ${column} as name, ${key} as key_id, count(*) filter (where gpu_ms = 0) as requests,
        sum(input_tokens) as input, sum(output_tokens) as output
      from usage
      where account_id = ${account} and not voided
        and settled_at >= ${from}::timestamptz and settled_at < ${to}::timestamptz
      group by 1, 2, 3
    )
    select coalesce(m.day, c.day) as day, coalesce(m.name, c.name) as name, coalesce(m.key_id, c.key_id) as key_id,
      null::bigint as lim, requests, input, output, cost
    from money m full join counted c on m.day = c.day and m.name = c.name and coalesce(m.key_id, '') = coalesce(c.key_id, '')
    order by cost desc nulls last, 1, 2, 3 limit ${max}`;
}

/** Amounts charged, by the end user that the request named. */
function byUser(account: AccountId, { from, to }: Range, max: number): RawBuilder<DayRow> {
  return sql<DayRow>`
    select date_trunc('day', settled_at, 'UTC') as day, coalesce(e.name, '') as name, null as key_id, null::bigint as lim,
      count(*) filter (where gpu_ms = 0) as requests, sum(input_tokens) as input, sum(output_tokens) as output,
      sum(charge)::bigint as cost
    from usage u left join end_user e on e.end_user_id = u.end_user
    where u.account_id = ${account} and not voided
      and settled_at >= ${from}::timestamptz and settled_at < ${to}::timestamptz
    group by 1, 2 order by cost desc, day, name limit ${max}`;
}

/** Amounts charged to tokens with their own limit; other tokens are not recorded. */
function byToken(account: AccountId, { from, to }: Range, max: number): RawBuilder<DayRow> {
  return sql<DayRow>`
    with counted as (
      select date_trunc('day', settled_at, 'UTC') as day, token_budget, max(key_id) as key_id, count(*) as requests,
        sum(input_tokens) as input, sum(output_tokens) as output, sum(charge)::bigint as cost
      from usage
      where account_id = ${account} and not voided and token_budget is not null
        and settled_at >= ${from}::timestamptz and settled_at < ${to}::timestamptz
      group by 1, 2 order by cost desc limit ${max}
    )
    select day, token_budget as name, key_id, lim, requests, input, output, cost
    from counted left join budget on budget_id = token_budget
    order by cost desc, day, name`;
}
