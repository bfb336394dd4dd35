// The room of a claim as parts of its statement. `bytes` is the size of a row's body, `bytes_before` the sum of what runs and
// what is claimed before it.
import { sql } from "kysely";
import type { LoadCapacity } from "../../webhooks/store.ts";

/** Rows (account_id, count, bytes). */
const runningRows = ({ running }: LoadCapacity) => {
  const loads = [...running.values()];
  return sql`select * from unnest(${[...running.keys()]}::text[], ${loads.map(({ count }) => count)}::integer[],
    ${loads.map(({ bytes }) => bytes)}::bigint[]) as r (account_id, count, bytes)`;
};

/** Accounts without room. */
export const fullAccounts = ({ running, maxPerAccount, maxBytesPerAccount }: LoadCapacity) => {
  const full = [...running].filter(([, { count, bytes }]) => count >= maxPerAccount || bytes >= maxBytesPerAccount);
  return sql`select unnest(${full.map(([account]) => account)}::text[])`;
};

/** Of rows (id, account_id, due_at, bytes) of `from`, the ids that there is room for, those due first before others. */
export const withinCapacity = (room: LoadCapacity, from: ReturnType<typeof sql>) => sql`
  select id from (
    select id, sum(bytes) over (order by due_at, id) - bytes as bytes_before from (
      select id, due_at, d.bytes,
        row_number() over of_account + coalesce(r.count, 0) as turn,
        sum(d.bytes) over of_account - d.bytes + coalesce(r.bytes, 0) as bytes_before
      from ${from} as d left join (${runningRows(room)}) as r using (account_id)
      window of_account as (partition by account_id order by due_at, id)
    ) as of_accounts
    where turn <= ${room.maxPerAccount}::integer and bytes_before < ${room.maxBytesPerAccount}::bigint
  ) as of_all
  where bytes_before + ${room.runningBytes}::bigint < ${room.maxBytes}::bigint`;
