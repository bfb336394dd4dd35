// Names of end users, and sums of usage by them.
import { type RawBuilder, sql } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import type { EndUserPlace, EndUserStore, SettledRecord } from "../../billing/store.ts";
import { asked, tooLong } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";

/** End users of an account and month beyond these are summed together. */
export const maxEndUsersPerMonth = 10_000;

/** Returns the records with the id of each end user's name in its place. */
export async function withEndUserIds(
  db: Db,
  records: readonly SettledRecord[],
  maxUsers = maxEndUsersPerMonth,
): Promise<readonly SettledRecord[]> {
  const named = new Map<string, { readonly account: string; readonly name: string }>();
  for (const { account, endUser } of records)
    if (endUser !== null) named.set(keyOf(account, endUser), { account, name: endUser });
  if (named.size === 0) return records;
  // One order for all settlements: each locks the months of its accounts.
  const keys = [...named.keys()].toSorted();
  const pairs = keys.map((key) => named.get(key) as { account: string; name: string });
  const { rows } = await sql<{ ids: readonly string[] }>`
    select end_user_ids(${pairs.map((pair) => pair.account)}::text[], ${pairs.map((pair) => pair.name)}::text[],
      ${maxUsers}::integer) as ids`.execute(db);
  const ids = new Map(keys.map((key, i) => [key, rows[0]?.ids[i] ?? ""]));
  return records.map((record) =>
    record.endUser === null ? record : { ...record, endUser: ids.get(keyOf(record.account, record.endUser)) ?? "" },
  );
}

// Neither has NUL.
const keyOf = (account: string, name: string): string => `${account}\0${name}`;

/** `reports`: where sums are read, possibly a replica. */
export function createEndUserStore(db: Db, reports = db): EndUserStore {
  // A page may have 10,000 rows, and their columns need no other names.
  const raw = reports.withoutPlugins();
  return asked<EndUserStore>({
    async endUserSums(account, { fromDay, toDay, by, model, key, user, order }, after, limit) {
      // Days before those of the page are not read again.
      const from = after && firstDayOf(after.period) > fromDay ? firstDayOf(after.period) : fromDay;
      const ofUser =
        user === undefined
          ? sql``
          : sql`and end_user = (select end_user_id from end_user where account_id = ${account} and name = ${user})`;
      const ofDays = sql`
        ${model === undefined ? sql`` : sql`and model = ${model}`} ${key === undefined ? sql`` : sql`and key_id = ${key}`} ${ofUser}`;
      // Months are not summed by model and key.
      const isByMonth = by === "month" && model === undefined && key === undefined;
      const parts = isByMonth
        ? await summedMonths(raw, account, { fromDay: from, toDay })
        : { months: [], days: [{ fromDay: from, toDay }] };
      const period = by === "day" ? sql`day` : sql`date_trunc('month', day::timestamp)::date`;
      const read = [
        ...parts.days.map(
          (days) => sql`
            select ${period} as period, end_user, requests, input_tokens as input, output_tokens as output, cost
            from usage_end_user
            where account_id = ${account} and day between ${days.fromDay}::date and ${days.toDay}::date ${ofDays}`,
        ),
        ...parts.months.map(
          (month) => sql`
            select make_date(month / 12, month % 12 + 1, 1) as period, end_user, requests, input_tokens as input,
              output_tokens as output, cost
            from usage_end_user_month where account_id = ${account} and month = ${month} ${ofUser}`,
        ),
      ];
      const sums = sql`select period, end_user, sum(requests) as requests, sum(input) as input, sum(output) as output, sum(cost) as cost`;
      const used = sql`(${sql.join(read, sql` union all `)}) used`;
      const query =
        order === "cost" ? byCost(account, sums, used, limit) : byName(sums, used, by === "month", after, limit);
      const { rows } = await query.execute(raw).catch(tooLong("Summing usage by end user"));
      return rows.map((row) => ({
        period: by === "day" ? row.period : row.period.slice(0, 7),
        user: row.name === "" ? undefined : row.name,
        requests: Number(row.requests),
        inputTokens: Number(row.input),
        outputTokens: Number(row.output),
        cost: BigInt(row.cost),
      }));
    },

    async eraseEndUser(account, name) {
      const { numDeletedRows } = await db
        .deleteFrom("endUser")
        .where("accountId", "=", account)
        .where("name", "=", name)
        .executeTakeFirst();
      return numDeletedRows > 0n;
    },
  });
}

interface SumRow {
  /** YYYY-MM-DD */
  readonly period: string;
  readonly name: string;
  readonly requests: string;
  readonly input: string;
  readonly output: string;
  readonly cost: string;
}

type Part = RawBuilder<unknown>;

/** The highest sums are chosen before their names are read. Those without a name are one of each period. */
const byCost = (account: AccountId, sums: Part, used: Part, limit: number) => sql<SumRow>`
  with sums as materialized (${sums} from ${used} group by 1, 2),
  known as materialized (
    select sums.*, end_user_id is not null as is_named from sums left join end_user on account_id = ${account} and end_user_id = end_user
  ),
  highest as (
    (select period, end_user, requests, input, output, cost from known
      where is_named order by cost desc, period, end_user limit ${limit})
    union all
    select period, '', sum(requests), sum(input), sum(output), sum(cost) from known where not is_named group by 1
  )
  select to_char(period, 'YYYY-MM-DD') as period, coalesce(name, '') as name, requests, input, output, cost
  from highest left join end_user on end_user_id = end_user
  order by cost desc, highest.period, name collate "C" limit ${limit}`;

/** A month is summed before its names are read; days are read in order until the page is full. */
const byName = (
  sums: Part,
  used: Part,
  isSummed: boolean,
  after: EndUserPlace | undefined,
  limit: number,
) => sql<SumRow>`
  select to_char(period, 'YYYY-MM-DD') as period, name, sum(requests) as requests, sum(input) as input, sum(output) as output,
    sum(cost) as cost
  from (
    select s.*, coalesce(name, '') collate "C" as name
    from ${isSummed ? sql`(${sums} from ${used} group by 1, 2)` : sql`(select * from ${used})`} s left join end_user e on e.end_user_id = s.end_user
  ) named
  ${after ? sql`where (named.period, name) > (${firstDayOf(after.period)}::date, ${after.user})` : sql``}
  group by named.period, name order by named.period, name limit ${limit}`;

interface Days {
  /** YYYY-MM-DD, both included. */
  readonly fromDay: string;
  readonly toDay: string;
}

/** A period, divided into months of which it has every day with usage, and the remaining days. */
export interface SummedMonths {
  /** Stored in usage_end_user_month. */
  readonly months: readonly number[];
  readonly days: readonly Days[];
}

export async function summedMonths(db: Db, account: AccountId, { fromDay, toDay }: Days): Promise<SummedMonths> {
  const { rows } = await sql<{ unsummed: readonly number[]; today: string }>`
    select array(select month from end_user_unsummed where account_id = ${account}) as unsummed,
      to_char(now() at time zone 'UTC', 'YYYY-MM-DD') as today`.execute(db);
  const { unsummed = [], today = "" } = rows[0] ?? {};
  const months: number[] = [];
  const days: Days[] = [];
  for (let month = monthOf(fromDay); month <= monthOf(toDay); month++) {
    const [first, last] = [dayText(month, 1), dayText(month + 1, 0)];
    const isWhole = fromDay <= first && (toDay >= last || toDay >= today);
    if (isWhole && !unsummed.includes(month)) months.push(month);
    else days.push({ fromDay: fromDay > first ? fromDay : first, toDay: toDay < last ? toDay : last });
  }
  return { months, days };
}

/** Year * 12 + index of the month, as stored. */
const monthOf = (day: string): number => Number(day.slice(0, 4)) * 12 + Number(day.slice(5, 7)) - 1;
const dayText = (month: number, day: number): string =>
  new Date(Date.UTC(Math.floor(month / 12), month % 12, day)).toISOString().slice(0, 10);

/** First day of YYYY-MM-DD or YYYY-MM. */
const firstDayOf = (period: string): string => period.padEnd(10, "-01");
