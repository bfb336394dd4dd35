// Capacity of a claim as parts of its statement. `bytes` is the size of a row's body, `bytes_before` the sum of running rows and
// rows claimed before it.
import { sql } from "kysely";
import type { LoadCapacity } from "../../webhooks/store.ts";

/** Rows (account_id, count, bytes). */
const runningRows = ({ running }: LoadCapacity) => {
  const loads = [...running.values()];
  return sql`select * from unnest(${[...running.keys()]}::text[], ${loads.map(({ count }) => count)}::integer[],
    ${loads.map(({ bytes }) => bytes)}::bigint[]) as r (account_id, count, bytes)`;
};

/** Accounts at their limit. */
export const fullAccounts = ({ running, maxPerAccount, maxBytesPerAccount }: LoadCapacity) => {
  const full = [...running].filter(([, { count, bytes }]) => count >= maxPerAccount || bytes >= maxBytesPerAccount);
  return sql`select unnest(${full.map(([account]) => account)}::text[])`;
};

/** Ids of rows (id, account_id, due_at, bytes) of `from` within the capacity, in order of `due_at`. */
export const withinCapacity = (capacity: LoadCapacity, from: ReturnType<typeof sql>) => sql`
  select id from (
    select id, sum(bytes) over (order by due_at, id) - bytes as bytes_before from (
      select id, due_at, d.bytes,
        row_number() over of_account + coalesce(r.count, 0) as turn,
        sum(d.bytes) over of_account - d.bytes + coalesce(r.bytes, 0) as bytes_before
      from ${from} as d left join (${runningRows(capacity)}) as r using (account_id)
      window of_account as (partition by account_id order by due_at, id)
    ) as of_accounts
    where turn <= ${capacity.maxPerAccount}::integer and bytes_before < ${capacity.maxBytesPerAccount}::bigint
  ) as of_all
  where bytes_before + ${capacity.runningBytes}::bigint < ${capacity.maxBytes}::bigint`;
