// Names of end users, and sums of usage by them.
import { sql } from "kysely";
import type { EndUserStore, SettledRecord } from "../../billing/store.ts";
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

export function createEndUserStore(db: Db): EndUserStore {
  return asked<EndUserStore>({
    async endUserSums(account, { fromDay, toDay, by, model, key, user, order }, after, limit) {
      // Days before those of the page are not read again.
      const from = after && firstDayOf(after.period) > fromDay ? firstDayOf(after.period) : fromDay;
      const used = sql`
        from usage_end_user where account_id = ${account} and day >= ${from}::date and day <= ${toDay}::date
          ${model === undefined ? sql`` : sql`and model = ${model}`}
          ${key === undefined ? sql`` : sql`and key_id = ${key}`}
          ${user === undefined ? sql`` : sql`and end_user = (select end_user_id from end_user where account_id = ${account} and name = ${user})`}`;
      // A month is summed before its names are read; days are read in order until the page is full.
      const sums =
        by === "day"
          ? sql`select day as period, end_user, requests, input_tokens as input, output_tokens as output, cost ${used}`
          : sql`select date_trunc('month', day::timestamp)::date as period, end_user, sum(requests) as requests,
              sum(input_tokens) as input, sum(output_tokens) as output, sum(cost) as cost ${used} group by 1, 2`;
      const { rows } = await sql<{
        period: string;
        name: string;
        requests: string;
        input: string;
        output: string;
        cost: string;
      }>`
        select to_char(period, ${by === "day" ? "YYYY-MM-DD" : "YYYY-MM"}) as period, name, sum(requests) as requests, sum(input) as input,
          sum(output) as output, sum(cost) as cost
        from (
          select s.*, coalesce(name, '') collate "C" as name from (${sums}) s left join end_user e on e.end_user_id = s.end_user
        ) named
        ${after ? sql`where (named.period, name) > (${firstDayOf(after.period)}::date, ${after.user})` : sql``}
        group by named.period, name
        order by ${order === "cost" ? sql`sum(cost) desc, named.period, name` : sql`named.period, name`} limit ${limit}`
        .execute(db)
        .catch(tooLong("Summing usage by end user"));
      return rows.map((row) => ({
        period: row.period,
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

/** First day of YYYY-MM-DD or YYYY-MM. */
const firstDayOf = (period: string): string => period.padEnd(10, "-01");
