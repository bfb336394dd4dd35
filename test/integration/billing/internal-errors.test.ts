// PostgreSQL reports an internal error (SQLSTATE class XX) for one row, e.g. of a damaged page, or for all of them.
import { afterAll, beforeAll, expect, it } from "vitest";
import { createDeliveredCounts } from "../../../control-plane/billing/delivered-counts.ts";
import { createLostAttempts } from "../../../control-plane/billing/lost-attempts.ts";
import { createMonthClosing } from "../../../control-plane/billing/months.ts";
import { monthOf } from "../../../control-plane/billing/period.ts";
import { monthScopes } from "../../../control-plane/billing/scopes.ts";
import { createSettlementStore } from "../../../control-plane/store/money/settlement-store.ts";
import type { AccountId, RequestId } from "../../../proto/ids.ts";
import { nano } from "../../../proto/money.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { handClock, log, openWorld, patience, tokenPrice, usageRecord, type World } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const usd = 1_000_000_000n;

/** Each row of `table` that meets `condition` is answered with an internal error. */
async function breakRows(world: World, table: string, condition: string): Promise<void> {
  await world.pool.query(`
    create function damaged() returns trigger language plpgsql as $$
    begin raise exception 'invalid page in block 7' using errcode = 'XX001'; end $$;
    create trigger damaged before insert on ${table} for each row when (${condition}) execute function damaged()`);
}

const quarantinedModels = async (world: World) =>
  (await world.db.selectFrom("usageQuarantine").select(["problem", "record"]).execute()).map(({ problem, record }) => [
    problem,
    JSON.parse(JSON.parse(record).ticket).model,
  ]);

it("quarantines the record that fails alone and settles the others of its group", async () => {
  const world = await openWorld(postgres);
  await breakRows(world, "usage", "new.model = 'damaged'");
  const account = await world.account(usd);
  const clock = handClock();
  const { settle } = world.openSettlement({ clock });
  const good = [1, 2].map(() => usageRecord(account, { input: 1, output: 1 }));
  const bad = usageRecord(account, { input: 1, output: 1 }, { model: "damaged" });
  const sent = [good[0], bad, good[1]].flatMap((one) => one ?? []);
  const settled = new Set<string>();
  let tries = 0;
  for (; tries < 10 && settled.size < sent.length; tries++) {
    for (const id of await settle(sent, "1")) settled.add(id);
    clock.pass(5_000);
  }
  expect(settled).toEqual(new Set(sent.map(({ spoolId }) => String(spoolId))));
  expect(tries).toBe(5);
  expect(await world.budget(account)).toMatchObject({ spent: 4n * tokenPrice });
  expect(await quarantinedModels(world)).toEqual([["refused_value", "damaged"]]);
});

it("quarantines nothing while every record fails, and settles all when the failure ends", async () => {
  const world = await openWorld(postgres);
  await breakRows(world, "usage", "true");
  const account = await world.account(usd);
  const clock = handClock();
  const { settle } = world.openSettlement({ clock });
  const sent = [1, 2, 3].map(() => usageRecord(account, { input: 1, output: 1 }));
  for (let tries = 0; tries < 12; tries++) {
    expect(await settle(sent, "1")).toEqual([]);
    clock.pass(5_000);
  }
  expect(await quarantinedModels(world)).toEqual([]);
  await world.pool.query("drop trigger damaged on usage");
  expect(await settle(sent, "1")).toHaveLength(3);
  expect(await world.budget(account)).toMatchObject({ spent: 6n * tokenPrice });
});

const countOf = (account: AccountId, requestId: string) => ({
  requestId: requestId as RequestId,
  attempt: 1,
  account,
  outputTokens: 2,
  leaseIds: [],
  hold: nano(usd),
});

it("writes the delivered counts behind one that fails", { timeout: 60_000 }, async () => {
  const world = await openWorld(postgres);
  await breakRows(world, "delivered_count", "new.request_id = 'damaged'");
  const account = await world.account(usd);
  const { settlementStore: store, unrecorded: counts, metrics } = world;
  const delivered = createDeliveredCounts({ store, counts, log, metrics });
  for (const id of ["damaged", "good-1", "good-2"]) delivered.report(countOf(account, id), "broken");
  await expect
    .poll(async () => (await world.db.selectFrom("deliveredCount").select("requestId").execute()).length, patience)
    .toBe(2);
  await delivered.stop();
});

it("settles the lost attempts behind one that fails", async () => {
  const world = await openWorld(postgres);
  const account = await world.account(usd);
  const tried: string[] = [];
  const lost = {
    host: "gone",
    key: "key",
    replica: "replica",
    model: "acme/model",
    deployId: "deployment",
    instanceId: "instance",
    admittedAtMs: Date.now(),
    brokeAtMs: Date.now(),
    inputTokens: 1,
    rates: { input: nano(usd), cachedInput: nano(usd), output: nano(usd) },
    priceVersion: 1n,
    discountId: null,
  } as never;
  const open = ["damaged", "good"].map((id) => ({
    ...countOf(account, id),
    lost,
    mayStillReport: false,
    reportedAtMs: Date.now(),
  }));
  const store = createSettlementStore(world.db, monthScopes);
  await breakRows(world, "usage", "new.request_id = 'damaged'");
  const clock = handClock();
  const attempts = createLostAttempts({
    store: { ...world.unrecorded, openCounts: async () => open },
    settlement: {
      settle: (facts) => {
        tried.push(...facts.records.map(({ requestId }) => requestId));
        return store.settle(facts);
      },
    },
    ...{ log, metrics: world.metrics, clock, silentMs: 1_000 },
  });
  await attempts.round();
  clock.pass(2_000);
  await attempts.round();
  expect(tried).toEqual(["damaged", "good"]);
});

it("makes the other accounts' invoices while the rows of one fail", async () => {
  const world = await openWorld(postgres);
  const [bad, good] = [await world.account(usd), await world.account(usd)];
  await world.settlement.settle(
    [bad, good].map((account) => usageRecord(account, { input: 1, output: 1 })),
    "1",
  );
  await breakRows(world, "invoice", `new.account_id = '${bad}'`);
  const clock = { ...handClock(), unixMs: () => Date.now() + 35 * 86_400_000 };
  const months = createMonthClosing({ store: world.invoiceStore, log, clock });
  expect(await months.closeMonths()).toBe(1);
  expect(await world.db.selectFrom("invoice").select("accountId").execute()).toEqual([{ accountId: good }]);
  expect(await world.invoiceStore.nextOpenMonth()).toBe(monthOf(Date.now()));
});
