import { type RawBuilder, sql } from "kysely";
import type { AccountId, KeyId } from "../../../proto/ids.ts";
import type { UsageDayStore } from "../../billing/store.ts";
import { usageNotReady } from "../../service-error.ts";
import { inTransaction } from "../core/database.ts";
import { asked, tooLong } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";
import { type SummedMonths, summedMonths } from "./end-user-store.ts";

interface DayRow {
  /** year * 12 + month index. */
  readonly month: number;
  readonly day: number;
  readonly name: string;
  readonly key_id: string | null;
  readonly lim: bigint | null;
  readonly requests: string;
  readonly input: string;
  readonly output: string;
  readonly cost: bigint;
  readonly is_truncated?: boolean;
}

const tooLongToSum = tooLong("Summing the use of these days");

/** `reports`: where sums are read, possibly a replica. */
export function createUsageDayStore(db: Db, reports = db): UsageDayStore {
  return asked<UsageDayStore>({
    async dayUse(account, by, fromMs, toMs, max) {
      const range = { from: new Date(fromMs), to: new Date(toMs - 1), days: Math.ceil((toMs - fromMs) / 86_400_000) };
      const [first, last] = [monthOf(range.from), monthOf(range.to)];
      // A replica may lack what is divided now.
      const isDivided = !(await hasUndivided(reports, account, first, last));
      if (!isDivided) await divideMonths(db, account, first, last).catch(tooLongToSum);
      // A report may have 20,000 rows, and their columns need no other names.
      const raw = (isDivided ? reports : db).withoutPlugins();
      const query =
        by === "token"
          ? byToken(account, range, max)
          : by === "user"
            ? byUser(account, range, max - range.days, await summedMonths(raw, account, daysIn(range)))
            : by === "project"
              ? byProject(account, range, max)
              : byModelOrKey(account, by, range, max);
      const { rows } = await query.execute(raw).catch(tooLongToSum);
      const uses = rows.slice(0, max).map((row) => ({
        dayMs: Date.UTC(Math.floor(row.month / 12), row.month % 12, row.day),
        of: row.name,
        key: row.key_id === null ? undefined : (row.key_id as KeyId),
        limit: row.lim,
        requests: Number(row.requests),
        inputTokens: Number(row.input),
        outputTokens: Number(row.output),
        cost: row.cost,
      }));
      return { uses, isTruncated: rows.length > max || (rows[0]?.is_truncated ?? false) };
    },

    async divideNext() {
      // At random: a month that cannot be divided must not stop the others.
      const oneOf = (work: string, table: string) =>
        inTransaction(db, async (trx) => {
          // A day of millions of records exceeds the time limit of requests.
          await sql`set local statement_timeout = '120s'`.execute(trx);
          const { rows } = await sql
            .raw(`/* at most 120 s */ select ${work}(account_id, month)
              from (select account_id, month from ${table} order by random() limit 1) one`)
            .execute(trx);
          return rows.length > 0;
        });
      const errors: unknown[] = [];
      for (const [work, table] of [
        ["divide_usage_days", "usage_undivided"],
        ["sum_end_user_month", "end_user_unsummed"],
      ] as const) {
        try {
          if (await oneOf(work, table)) return true;
        } catch (error) {
          errors.push(error);
        }
      }
      if (errors.length > 1) throw new AggregateError(errors, "could neither divide nor sum usage");
      if (errors.length > 0) throw errors[0];
      return false;
    },

    projectsOf: (account) =>
      db.selectFrom("project").select(["projectId as project", "name"]).where("accountId", "=", account).execute(),

    keysOf: (account) =>
      db.selectFrom("apiKey").select(["tokenId as key", "name"]).where("accountId", "=", account).execute(),
  });
}

async function hasUndivided(db: Db, account: AccountId, first: number, last: number): Promise<boolean> {
  const { rows } = await sql<{ has: boolean }>`
    select exists (select from usage_undivided where account_id = ${account} and month between ${first} and ${last}) as has`.execute(
    db,
  );
  return rows[0]?.has ?? false;
}

/** A report waits for the division of at most this many records and entries, which takes about a second. */
const maxDividedAtOnce = 20_000;

/** Divides sums that an earlier version stored by month. Throws usageNotReady if they are many: the job `divide-usage` divides those. */
async function divideMonths(db: Db, account: AccountId, first: number, last: number): Promise<void> {
  const { rows } = await sql<{ month: number; left: string }>`
    select u.month, coalesce(sum(records + entries), 0) as left from usage_undivided u
    left join usage_day d on d.account_id = u.account_id and d.month = u.month and d.day = 0
    where u.account_id = ${account} and u.month between ${first} and ${last} group by 1`.execute(db);
  if (rows.reduce((sum, { left }) => sum + Number(left), 0) > maxDividedAtOnce) throw usageNotReady();
  for (const { month } of rows) {
    for (;;) {
      const { rows: divided } = await sql<{ more: boolean }>`
        select divide_usage_days(${account}, ${month}) as more`.execute(db);
      if (!divided[0]?.more) break;
    }
  }
}

interface Range {
  /** First and last moment. */
  readonly from: Date;
  readonly to: Date;
  readonly days: number;
}

const monthOf = (date: Date): number => date.getUTCFullYear() * 12 + date.getUTCMonth();
const dayText = (date: Date): string => date.toISOString().slice(0, 10);
const daysIn = ({ from, to }: Range) => ({ fromDay: dayText(from), toDay: dayText(to) });
const monthAndDay = (date: string) =>
  sql.raw(`(date_part('year', ${date}) * 12 + date_part('month', ${date}) - 1)::integer as month,
    date_part('day', ${date})::integer as day`);

const inDays = (account: AccountId, { from, to }: Range) => sql<boolean>`
  account_id = ${account} and day > 0 and (month, day) >= (${monthOf(from)}, ${from.getUTCDate()})
  and (month, day) <= (${monthOf(to)}, ${to.getUTCDate()})`;

function byModelOrKey(
  account: AccountId,
  by: "model" | "key" | "model_and_key",
  range: Range,
  max: number,
): RawBuilder<DayRow> {
  const name = sql.ref(by === "key" ? "key_id" : "model");
  const key = by === "model_and_key" ? sql`key_id` : sql`null::text`;
  return sql<DayRow>`
    select month, day, ${name} as name, ${key} as key_id, null::bigint as lim, sum(requests) as requests,
      sum(tokens - output_tokens) as input, sum(output_tokens) as output, sum(cost)::bigint as cost
    from usage_day where ${inDays(account, range)}
    group by 1, 2, 3, 4 having sum(records) <> 0 or sum(entries) <> 0
    order by cost desc, 1, 2, 3, 4 limit ${max + 1}`;
}

/** A key never changes its project. */
function byProject(account: AccountId, range: Range, max: number): RawBuilder<DayRow> {
  return sql<DayRow>`
    select month, day, coalesce(project_id, '') as name, null::text as key_id, null::bigint as lim, sum(requests) as requests,
      sum(input) as input, sum(output) as output, sum(cost)::bigint as cost
    from (
      select month, day, key_id, sum(requests) as requests, sum(tokens - output_tokens) as input, sum(output_tokens) as output,
        sum(cost) as cost
      from usage_day where ${inDays(account, range)}
      group by 1, 2, 3 having sum(records) <> 0 or sum(entries) <> 0
    ) used left join api_key on token_id = key_id
    group by 1, 2, 3 order by cost desc, 1, 2, 3 limit ${max + 1}`;
}

/**
 * End users of the highest cost, as many as have at most `max` days together. Usage of a day without a named end user is what the named
 * ones leave of the whole.
 */
function byUser(account: AccountId, range: Range, max: number, { months, days }: SummedMonths): RawBuilder<DayRow> {
  const { fromDay, toDay } = daysIn(range);
  const parts = [
    sql`select end_user, cost, bit_count(days::bit(32)) as days from usage_end_user_month
      where account_id = ${account} and month = any(${months}::integer[])`,
    ...days.map(
      (part) => sql`select end_user, sum(cost), count(distinct day) from usage_end_user
        where account_id = ${account} and day between ${part.fromDay}::date and ${part.toDay}::date group by 1`,
    ),
  ];
  return sql<DayRow>`
    with of_user as (
      select end_user, sum(cost) as cost, sum(days) as days from (${sql.join(parts, sql` union all `)}) part group by 1
    ), listed as (
      select end_user_id, name, sum(days) over (order by cost desc, name rows unbounded preceding) as items
      from of_user join end_user on end_user_id = end_user
    ), named as materialized (
      -- Null: end users that are not shown, together.
      select day, case when items <= ${max} then name end as name, sum(requests) as requests, sum(input_tokens) as input,
        sum(output_tokens) as output, sum(cost) as cost
      from usage_end_user join listed on end_user_id = end_user
      where account_id = ${account} and day between ${fromDay}::date and ${toDay}::date group by 1, 2
    ), others as (
      select day, sum(requests) as requests, sum(input) as input, sum(output) as output, sum(cost) as cost
      from (
        select make_date(month / 12, month % 12 + 1, day) as day, requests, tokens - output_tokens as input, output_tokens as output, cost
        from usage_day where ${inDays(account, range)}
        union all
        select day, -requests, -input, -output, -cost from named
      ) part group by 1
    )
    select ${monthAndDay("users.day")}, name, null as key_id, null::bigint as lim, requests, input, output, cost::bigint as cost,
      exists (select from named where name is null) as is_truncated
    from (select * from named where name is not null union all select day, '', requests, input, output, cost from others) users
    where requests <> 0 or input <> 0 or output <> 0 or cost <> 0
    order by cost desc, day, name`;
}

/** Tokens with their own limit; other tokens are not recorded. */
function byToken(account: AccountId, range: Range, max: number): RawBuilder<DayRow> {
  return sql<DayRow>`
    select ${monthAndDay("t.day")}, token_budget as name, key_id, lim, requests, input_tokens as input, output_tokens as output, cost
    from (
      select * from usage_token
      where account_id = ${account} and day between ${dayText(range.from)}::date and ${dayText(range.to)}::date
        and (requests <> 0 or cost <> 0)
      order by cost desc, day, token_budget limit ${max + 1}
    ) t left join budget on budget_id = token_budget
    order by cost desc, t.day, name`;
}
