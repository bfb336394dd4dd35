// Usage by end user on a real PostgreSQL.
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { createEndUsers } from "../../../control-plane/billing/end-users.ts";
import { openDatabase } from "../../../control-plane/store/core/database.ts";
import { createEndUserStore, withEndUserIds } from "../../../control-plane/store/money/end-user-store.ts";
import type { AccountId, RequestId } from "../../../proto/ids.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { log, openWorld, tokenPrice, usageRecord, type World } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const usd = 1_000_000_000n;
const usersOf = (world: World) => createEndUsers({ store: createEndUserStore(world.db) });
const listed = async (world: World, account: AccountId, more: object = {}) =>
  (await usersOf(world).list(account, { limit: 100, ...more })).users;

it("sums what requests of an end user were charged, by month and by day, model and key", async () => {
  const world = await openWorld(postgres);
  const [account, stranger] = [await world.account(usd), await world.account(usd)];
  const one = (endUser: string, input: number, more: object = {}, who = account) =>
    usageRecord(who, { input, output: 1 }, { endUser, ...more });
  const records = [
    one("ann", 1),
    one("ann", 10, { model: "acme/other", keyId: "key-2" }),
    one("bob", 100),
    usageRecord(account, { input: 7, output: 7 }),
    one("ann", 1_000, {}, stranger),
  ];
  await world.settlement.settle(records, "1");
  // A repeated record adds nothing.
  await world.settlement.settle(records, "1");
  const today = new Date().toISOString().slice(0, 10);
  const month = today.slice(0, 7);
  expect(await listed(world, account)).toEqual([
    { period: month, user: "ann", requests: 2, inputTokens: 11, outputTokens: 2, cost: 13n * tokenPrice },
    { period: month, user: "bob", requests: 1, inputTokens: 100, outputTokens: 1, cost: 101n * tokenPrice },
  ]);
  const ofDay = await listed(world, account, { by: "day", model: "acme/other" });
  expect(ofDay).toEqual([{ period: today, user: "ann", requests: 1, inputTokens: 10, outputTokens: 1, cost: 11_000n }]);
  const byCost = await usersOf(world).list(account, { limit: 1, order: "cost" });
  expect(byCost).toMatchObject({ users: [{ user: "bob" }], next: undefined });
  expect(await listed(world, account, { user: "ann" })).toMatchObject([{ user: "ann", requests: 2 }]);
  expect(await listed(world, account, { key: "key-2" })).toEqual([{ ...ofDay[0], period: month }]);
  expect(await listed(world, account, { from: "2020-01-01", to: "2020-02-01" })).toEqual([]);
  const users = usersOf(world);
  const first = await users.list(account, { limit: 1 });
  const second = await users.list(account, { limit: 1, after: first.next });
  expect([first, second].map((page) => [page.users[0]?.user, page.next !== undefined])).toEqual([
    ["ann", true],
    ["bob", false],
  ]);
});

it("agrees with the usage table after retries and cut charges in any order", async () => {
  const world = await openWorld(postgres);
  const account = await world.account(usd);
  const attempt = (id: string, n: number, input: number, endUser: string) =>
    usageRecord(account, { input, output: 1 }, { requestId: id as RequestId, attempt: n, endUser });
  await world.settlement.settle([attempt("r1", 2, 20, "ann"), attempt("r2", 1, 3, "bob")], "1");
  await world.settlement.settle([attempt("r1", 1, 500, "ann"), attempt("r2", 2, 30, "bob")], "1");
  const { rows } = await world.pool.query(
    `select name as user, count(*) filter (where not voided)::int as requests,
       (sum(input_tokens) filter (where not voided))::int as input, sum(charge)::bigint as cost
     from usage u join end_user e on e.end_user_id = u.end_user group by 1 order by 1`,
  );
  expect(rows).toEqual([
    { user: "ann", requests: 1, input: 20, cost: 21n * tokenPrice },
    { user: "bob", requests: 1, input: 30, cost: 31n * tokenPrice },
  ]);
  const sums = (await listed(world, account)).map(({ user, requests, inputTokens: input, cost }) => ({
    user,
    requests,
    input,
    cost: BigInt(cost),
  }));
  expect(sums).toEqual(rows);
});

it("erases a name: its sums stay under none, and the same name begins again", async () => {
  const world = await openWorld(postgres);
  const [account, stranger] = [await world.account(usd), await world.account(usd)];
  const settle = (who: AccountId) =>
    world.settlement.settle([usageRecord(who, { input: 1, output: 1 }, { endUser: "ann" })], "1");
  await settle(account);
  await settle(stranger);
  const users = usersOf(world);
  await users.erase(account, "ann");
  await expect(users.erase(account, "ann")).rejects.toMatchObject({ code: "end_user_not_found" });
  const { rows } = await world.pool.query(`
    select account_id from end_user where name = 'ann' union all
    select account_id from usage u where u::text like '%ann%' union all
    select account_id from request_label where end_user = 'ann'`);
  expect(rows).toEqual([{ account_id: stranger }]);
  await settle(account);
  expect((await listed(world, account)).map(({ user, requests }) => [user, requests])).toEqual([
    [undefined, 1],
    ["ann", 1],
  ]);
});

it("names a bounded number of end users in a month, also for settlements at the same time", async () => {
  const world = await openWorld(postgres);
  const account = await world.account(usd);
  const [record] = [{ account, endUser: "" } as unknown as Parameters<typeof withEndUserIds>[1][number]];
  const groups = Array.from({ length: 4 }, (_, g) =>
    Array.from({ length: 4 }, (_, n) => ({ ...record, endUser: `user-${g}-${n}` }) as typeof record),
  );
  const found = await Promise.all(groups.map((group) => withEndUserIds(world.db, group as never, 10)));
  const ids = found.flat().map(({ endUser }) => endUser);
  expect(ids.filter((id) => id === "")).toHaveLength(6);
  expect(new Set(ids).size).toBe(11);
  const again = await withEndUserIds(world.db, groups.flat() as never, 10);
  expect(again.map(({ endUser }) => endUser)).toEqual(ids);
});

it("lists the highest costs of 30,000 end users with little memory, and sums those without a name", async () => {
  const world = await openWorld(postgres);
  const account = await world.account(usd);
  await world.pool.query(
    `insert into end_user (account_id, name, end_user_id, month) select $1, 'user-' || n, 'id-' || n, 1 from generate_series(1, 30000) n`,
    [account],
  );
  await world.pool.query(
    `insert into usage_end_user_month (account_id, month, end_user, days, requests, input_tokens, output_tokens, cost)
     select $1, date_part('year', now() at time zone 'UTC') * 12 + date_part('month', now() at time zone 'UTC') - 1, 'id-' || n, 1, 1, n, 0, n
     from generate_series(1, 30003) n`,
    [account],
  );
  await world.pool.query("analyze end_user, usage_end_user_month");
  await world.pool.query(
    "do $$ begin execute format('alter database %I set work_mem = 64', current_database()); end $$",
  );
  const { db, close } = openDatabase(world.url, { maxConnections: 1, log });
  onTestFinished(close);
  const users = createEndUsers({ store: createEndUserStore(db) });
  const month = new Date().toISOString().slice(0, 7);
  // The time limit of requests ends it where each sum is compared with all names.
  const { users: found } = await users.list(account, { from: `${month}-01`, limit: 3, order: "cost" });
  expect(found.map(({ user, cost, requests }) => [user, BigInt(cost), requests])).toEqual([
    [undefined, 90_006n, 3],
    ["user-30000", 30_000n, 1],
    ["user-29999", 29_999n, 1],
  ]);
});
