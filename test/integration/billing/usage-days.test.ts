// Sums of usage by day: the same as the records, also where an earlier version stored them by month.
import type { Kysely } from "kysely";
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from "vitest";
import { createEndUsers } from "../../../control-plane/billing/end-users.ts";
import { createUsageDays, dayOf, usageDimensions } from "../../../control-plane/billing/usage-days.ts";
import { checkBooks } from "../../../control-plane/store/core/check-books.ts";
import { openDatabase } from "../../../control-plane/store/core/database.ts";
import { up as addUnsummed } from "../../../control-plane/store/migrations/0081-unsummed-end-users.ts";
import { createEndUserStore } from "../../../control-plane/store/money/end-user-store.ts";
import { createUsageDayStore } from "../../../control-plane/store/money/usage-day-store.ts";
import type { AccountId, RequestId } from "../../../proto/ids.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { log, openWorld, usageRecord, type World, wholeBooks } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const usd = 1_000_000_000n;
const daysOf = (world: World) => createUsageDays({ store: createUsageDayStore(world.db) });

/** A token with a limit of its own. */
async function leaseOfToken(world: World, account: AccountId, name: string): Promise<string> {
  await world.pool.query("insert into budget (budget_id, scope, account_id, lim) values ($1, 'jwt', $2, 1000000000)", [
    `jwt/${name}`,
    account,
  ]);
  await world.pool.query(
    `insert into lease (lease_id, budget_id, replica_id, replica_epoch, granted, expires_at)
     values ($1, $2, 'r', 1, 100000000, now() + interval '1 day')`,
    [name, `jwt/${name}`],
  );
  await world.pool.query("update budget set leased = 100000000 where budget_id = $1", [`jwt/${name}`]);
  return name;
}

/** Forty requests of end users, tokens and keys, settled on the last forty days. */
async function useForDays(world: World, account: AccountId) {
  const token = await leaseOfToken(world, account, `token-of-${account}`);
  const records = Array.from({ length: 40 }, (_, n) =>
    usageRecord(
      account,
      { input: 10 + n, output: n },
      {
        requestId: `request-${n}-${account}` as RequestId,
        keyId: `key-${n % 2}`,
        model: `acme/model-${n % 3}`,
        ...(n % 4 === 0 ? { leaseIds: [token] } : {}),
        ...(n % 3 === 0 ? { endUser: `user-${n % 2}` } : {}),
      },
    ),
  );
  await world.settlement.settle(records, "1");
  const ago = (column: string) => `${column} - split_part(request_id, '-', 2)::integer * interval '1 day'`;
  await world.pool.query(
    `set session_replication_role = replica;
     update usage set settled_at = ${ago("settled_at")} where account_id = '${account}';
     update ledger_entry set posted_at = ${ago("posted_at")} where account_id = '${account}' and request_id is not null;
     reset session_replication_role;
     select rebuild_usage_days()`,
  );
  return records;
}

/** As the version before sums by day stored them. */
const storeByMonth = (world: World) =>
  world.pool.query(
    `create table before_days as select * from usage_month;
     delete from usage_day;
     delete from usage_token;
     insert into usage_day (account_id, month, key_id, model, price_version, discount_id, deploy_id, records, entries, cost, tokens, gpu_ms,
       characters, audio_ms, images, image_milli)
     select account_id, month, key_id, model, price_version, discount_id, deploy_id, records, entries, cost, tokens, gpu_ms, characters,
       audio_ms, images, image_milli from before_days;
     insert into usage_undivided (account_id, month) select distinct account_id, month from before_days`,
  );

const totalsOf = async (world: World, account: AccountId) =>
  Promise.all(usageDimensions.map(async (by) => (await daysOf(world).read(account, by, undefined, undefined)).days));

it("come to the records, by each dimension, and are of the account alone", async () => {
  const world = await openWorld(postgres);
  const [account, stranger] = [await world.account(usd), await world.account(usd)];
  await useForDays(world, account);
  await useForDays(world, stranger);
  const { rows } = await world.pool.query<{ day: string; requests: number; cost: bigint }>(
    `select to_char(settled_at at time zone 'UTC', 'YYYY-MM-DD') as day, count(*)::integer as requests, sum(charge)::bigint as cost
     from usage where account_id = $1 and settled_at >= (now() at time zone 'UTC')::date::timestamp at time zone 'UTC' - interval '29 days'
     group by 1 order by 1`,
    [account],
  );
  const [byModel, byKey, byPair, byProject, byToken, byUser] = await totalsOf(world, account);
  const days = rows.map(({ day, cost }) => [day, BigInt(cost)]);
  for (const found of [byModel, byKey, byPair, byProject, byUser])
    expect(found?.map(({ day, totalCost }) => [day, totalCost])).toEqual(days);
  for (const found of [byModel, byKey, byPair, byProject, byUser])
    expect(found?.map(({ items }) => items.reduce((sum, item) => sum + item.requests, 0))).toEqual(
      rows.map(({ requests }) => requests),
    );
  expect(byUser?.flatMap(({ items }) => items.map(({ of }) => of)).toSorted()).toEqual([
    ...Array.from({ length: 20 }, () => ""),
    ...Array.from({ length: 5 }, () => "user-0"),
    ...Array.from({ length: 5 }, () => "user-1"),
  ]);
  expect(byToken?.flatMap(({ items }) => items.map(({ of, key }) => [of, key]))).toEqual(
    Array.from({ length: 8 }, () => [`jwt/token-of-${account}`, "key-0"]),
  );
  expect(await checkBooks(world.db)).toMatchObject({ wrongDays: [], wrongTokens: [] });
});

it("are divided from sums by month, beside settlements that change days of before", async () => {
  const world = await openWorld(postgres);
  const account = await world.account(usd);
  const records = await useForDays(world, account);
  const expected = await totalsOf(world, account);
  await storeByMonth(world);
  expect(await totalsOf(world, account)).toEqual(expected);
  const divided = await world.pool.query("select from usage_day where day = 0");
  // A report of 30 days divides two months or three; another month of the forty days may remain.
  expect(divided.rows.length).toBeLessThanOrEqual(9);

  await world.pool.query("drop table before_days; delete from usage_undivided; select rebuild_usage_days()");
  await storeByMonth(world);
  const again = (n: number) =>
    usageRecord(account, { input: 1, output: 1 }, { requestId: records[n]?.requestId as RequestId, attempt: 2 });
  // The first attempts were settled days ago: their units leave those days.
  await world.settlement.settle([again(5), again(12), again(38)], "1");
  expect(await checkBooks(world.db)).toEqual(wholeBooks);
  const { divide } = daysOf(world);
  await Promise.all([
    divide(new AbortController().signal),
    divide(new AbortController().signal),
    ...[7, 20, 31].map((n) => world.settlement.settle([again(n)], "1")),
  ]);
  expect((await world.pool.query("select from usage_undivided")).rows).toEqual([]);
  expect((await world.pool.query("select from usage_day where day = 0")).rows).toEqual([]);
  expect(await checkBooks(world.db)).toEqual(wholeBooks);
});

it("are not divided by a report where they are many, but by the job", async () => {
  const world = await openWorld(postgres);
  const account = await world.account(usd);
  await useForDays(world, account);
  const expected = await totalsOf(world, account);
  await storeByMonth(world);
  const many =
    "update usage_day set records = records + 20000 * $1 where ctid = (select ctid from usage_day where month = (select max(month) from usage_day) limit 1)";
  await world.pool.query(many, [1]);
  await expect(daysOf(world).read(account, "model", undefined, undefined)).rejects.toMatchObject({
    code: "usage_not_ready",
    kind: "unavailable",
  });
  expect((await world.pool.query("select from usage_day where day > 0")).rows).toEqual([]);
  await world.pool.query(many, [-1]);
  await daysOf(world).divide(new AbortController().signal);
  expect(await totalsOf(world, account)).toEqual(expected);
});

it("of end users come to the same by month as by day, also while they are added and beside settlements", async () => {
  const world = await openWorld(postgres);
  const account = await world.account(usd);
  const records = await useForDays(world, account);
  const users = createEndUsers({ store: createEndUserStore(world.db) });
  const today = Date.now();
  const ago = (days: number) => dayOf(today - days * 86_400_000);
  const reports = async () =>
    Promise.all(
      [ago(45), ago(33), ago(3), `${ago(0).slice(0, 8)}01`, `${ago(32).slice(0, 8)}01`].flatMap((from) =>
        (["name", "cost"] as const).map(async (order) => {
          const query = { from, to: ago(0), order, limit: 100 };
          const [months, single] = [
            await users.list(account, query),
            await users.list(account, { ...query, by: "day" }),
          ];
          const sums = new Map<string, bigint[]>();
          for (const { period, user, requests, inputTokens, outputTokens, cost } of single.users) {
            const sum = sums.get(`${period.slice(0, 7)} ${user}`) ?? [0n, 0n, 0n, 0n];
            sums.set(
              `${period.slice(0, 7)} ${user}`,
              [requests, inputTokens, outputTokens, cost].map((value, i) => (sum[i] ?? 0n) + BigInt(value)),
            );
          }
          const found = months.users.map(({ period, user, requests, inputTokens, outputTokens, cost }) => [
            `${period} ${user}`,
            [requests, inputTokens, outputTokens, cost].map(BigInt),
          ]);
          expect(new Map(found as [string, bigint[]][])).toEqual(sums);
          return months.users;
        }),
      ),
    );
  const summed = await reports();
  const byUser = await daysOf(world).read(account, "user", ago(45), ago(0));

  const before = await world.pool.query("delete from usage_end_user_month returning month");
  await world.pool.query("insert into end_user_unsummed select distinct $1, month from unnest($2::integer[]) month", [
    account,
    before.rows.map(({ month }) => month),
  ]);
  expect(await reports()).toEqual(summed);
  expect(await daysOf(world).read(account, "user", ago(45), ago(0))).toEqual(byUser);

  const again = (n: number) =>
    usageRecord(account, { input: 1, output: 1 }, { requestId: records[n]?.requestId as RequestId, attempt: 2 });
  // The units of the first attempts, of other days, leave them.
  await world.settlement.settle([again(3), again(36)], "1");
  await Promise.all([
    daysOf(world).divide(new AbortController().signal),
    daysOf(world).divide(new AbortController().signal),
    ...[6, 39].map((n) => world.settlement.settle([again(n)], "1")),
  ]);
  expect((await world.pool.query("select from end_user_unsummed")).rows).toEqual([]);
  expect(await checkBooks(world.db)).toEqual(wholeBooks);
  await reports();
  await users.erase(account, "user-1");
  await reports();
});

it("of end users are added where no month could be divided, and for accounts that 0071 missed", async () => {
  const world = await openWorld(postgres);
  const account = await world.account(usd);
  await useForDays(world, account);
  await world.settlement.settle([usageRecord(account, { input: 1, output: 1 }, { endUser: "user-1" })], "1");
  await world.pool.query("update end_user_month set month = month - 1");
  await world.pool.query("insert into end_user_month select account_id, month - 1, users from end_user_month");
  await world.pool.query("delete from usage_end_user_month");
  await storeByMonth(world);
  await beforeEachDay(world, "raise exception 'as the test wants'");
  const client = await world.pool.connect();
  onTestFinished(() => client.release());
  await client.query("begin; select end_user_ids(array['account-of-now'], array['ann'], 10)");
  const migrating = world.db
    .withoutPlugins()
    .transaction()
    .execute((trx) => addUnsummed(trx as unknown as Kysely<unknown>));
  await vi.waitFor(async () => {
    const { rows } = await world.pool.query(
      "select from pg_locks where relation = 'end_user_month'::regclass and not granted",
    );
    expect(rows).toHaveLength(1);
  });
  await client.query("commit");
  await migrating;
  const { rows } = await world.pool.query("select from end_user_unsummed where account_id = 'account-of-now'");
  expect(rows).toHaveLength(2);
  await expect(daysOf(world).divide(new AbortController().signal)).rejects.toThrow("as the test wants");
  expect((await world.pool.query("select from end_user_unsummed")).rows).toEqual([]);
  expect((await checkBooks(world.db)).wrongEndUserMonths).toEqual([]);
});

/** Runs `sql` before each read of a day's records. */
async function beforeEachDay(world: World, sql: string) {
  const { rows } = await world.pool.query("select pg_get_function_result('usage_days_of'::regproc) as type");
  await world.pool.query(
    `alter function usage_days_of rename to usage_days_at_once;
     create function usage_days_of(of_account text, from_at timestamptz, to_at timestamptz) returns ${rows[0].type}
     stable language plpgsql as $$ begin
       ${sql};
       return query select * from usage_days_at_once(of_account, from_at, to_at);
     end $$`,
  );
}

/** A month that takes three seconds to divide. */
async function slowMonth(world: World): Promise<number> {
  await storeByMonth(world);
  const { rows } = await world.pool.query("select max(month) as month from usage_undivided");
  await world.pool.query(
    "select divide_usage_days(account_id, month) from usage_undivided where month < (select max(month) from usage_undivided)",
  );
  await beforeEachDay(world, "perform pg_sleep(0.1)");
  return rows[0].month;
}

it("are divided without a wait for settlements of the account", async () => {
  const world = await openWorld(postgres);
  const account = await world.account(usd);
  const records = await useForDays(world, account);
  const month = await slowMonth(world);
  const done: string[] = [];
  const dividing = world.pool.query("select divide_usage_days($1, $2)", [account, month]).then(() => done.push("days"));
  await vi.waitFor(async () => {
    const { rows } = await world.pool.query("select from pg_stat_activity where wait_event = 'PgSleep'");
    expect(rows).toHaveLength(1);
  });
  const retried = usageRecord(
    account,
    { input: 1, output: 1 },
    { requestId: records[0]?.requestId as RequestId, attempt: 2 },
  );
  await world.settlement
    .settle([usageRecord(account, { input: 3, output: 4 }), retried], "1")
    .then(() => done.push("settled"));
  await dividing;
  expect(done).toEqual(["settled", "days"]);
  expect((await world.pool.query("select from usage_undivided")).rows).toEqual([]);
  expect(await checkBooks(world.db)).toEqual(wholeBooks);
});

it("are divided by a job that may take longer than a request", async () => {
  const world = await openWorld(postgres);
  const account = await world.account(usd);
  await useForDays(world, account);
  await slowMonth(world);
  const { db, close } = openDatabase(world.url, { maxConnections: 1, statementTimeoutMs: 300, log });
  onTestFinished(close);
  expect(await createUsageDayStore(db).divideNext()).toBe(true);
  expect((await world.pool.query("select from usage_undivided")).rows).toEqual([]);
});

it("are divided for other accounts where those of one account cannot be", async () => {
  const world = await openWorld(postgres);
  const [broken, account] = [await world.account(usd), await world.account(usd)];
  await useForDays(world, broken);
  await useForDays(world, account);
  await storeByMonth(world);
  await beforeEachDay(world, `if of_account = '${broken}' then raise exception 'as the test wants'; end if`);
  const { divide } = daysOf(world);
  await vi.waitFor(
    async () => {
      await divide(new AbortController().signal).catch(() => undefined);
      const { rows } = await world.pool.query("select distinct account_id from usage_undivided");
      expect(rows).toEqual([{ account_id: broken }]);
    },
    { timeout: 30_000 },
  );
});

it("are computed from the records of their day, not from those of other days and accounts", async () => {
  const world = await openWorld(postgres);
  const [account, stranger] = [await world.account(usd), await world.account(usd)];
  await useForDays(world, account);
  await useForDays(world, stranger);
  const client = await world.pool.connect();
  try {
    // Other work may take the processor meanwhile.
    const patient = { query_timeout: 120_000 };
    await client.query({
      ...patient,
      text: `set statement_timeout = 0; set session_replication_role = replica;
       create temporary table copied as select u.*, n from usage u, generate_series(1, 200) n;
       update copied set request_id = request_id || '/' || n, token_budget = 'jwt/x';
       alter table copied drop n;
       insert into usage select * from copied;
       insert into ledger_entry (transaction_id, book, account_id, amount, kind, request_id, attempt, key_id, model, price_version, posted_at)
       select 't-' || request_id, 'customer_spent', account_id, 1, 'capture', request_id, 1, key_id, model, price_version, settled_at from copied;
       reset session_replication_role;
       set max_parallel_workers_per_gather = 0`,
    });
    await client.query({ ...patient, text: "vacuum analyze usage, ledger_entry" });
    await client.query("begin");
    const today = await client.query(
      `select sum(requests)::integer as requests, sum(cost)::integer as cost from usage_tokens_of(
         $1, date_trunc('day', now(), 'UTC'), date_trunc('day', now(), 'UTC') + interval '1 day')`,
      [account],
    );
    expect(today.rows[0].requests).toBeGreaterThanOrEqual(200);
    expect(today.rows[0].cost).toBeGreaterThanOrEqual(200);
    const { rows } = await client.query(
      `select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::integer as read from pg_stat_xact_user_tables where relname like 'usage\\_%'`,
    );
    await client.query("rollback");
    // The table has 16,000 rows.
    expect(rows[0].read).toBeLessThan(1_700);
  } finally {
    client.release(true);
  }
});
