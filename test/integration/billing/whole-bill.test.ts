// A bill with every kind of use on a real PostgreSQL: it verifies to the nano-dollar, and one altered record of each kind is named.
import { afterAll, beforeAll, expect, it } from "vitest";
import { createGpuHolds } from "../../../control-plane/billing/gpu-holds.ts";
import { createGpuTime } from "../../../control-plane/billing/gpu-time.ts";
import { providerPayer } from "../../../control-plane/billing/leases.ts";
import { providerDayBudget, providerMonthBudget } from "../../../control-plane/billing/scopes.ts";
import { createGpuTimeStore } from "../../../control-plane/store/money/gpu-time-store.ts";
import { createProviderStore } from "../../../control-plane/store/money/provider-store.ts";
import type { HostId } from "../../../proto/ids.ts";
import { nano } from "../../../proto/money.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { usd } from "./billing-world.ts";
import { addInstance, minutesOf } from "./gpu-instances.ts";
import { closeMonth, openSeals, publicKeys, type SealsWorld, settle, verdictOf } from "./seals-world.ts";
import { log, usageRecord } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres?.stop());

const minute = 60_000;
const basisPoints = 1_234;

async function addPrice({ db }: SealsWorld, values: object): Promise<string> {
  const row = await db
    .insertInto("price")
    .values({ effectiveFrom: new Date(0), ...values } as never)
    .returning("priceVersion")
    .executeTakeFirstOrThrow();
  return String(row.priceVersion);
}

/** An instance whose minutes are settled, at a price of its own. */
async function rent(world: SealsWorld, price: object, given: { readonly gpus?: number; readonly plan?: string }) {
  const made = await addInstance(world, { ...given, credit: 0n });
  await addPrice(world, { ...price, subject: given.plan ?? made.gpu });
  if (given.plan !== undefined)
    await world.pool.query("update deployment set price_subject = $1 where deploy_id = $2", [
      given.plan,
      made.deployId,
    ]);
  return made;
}

/** Bills one minute to `account`, which owns the instance from now on. */
async function settleMinute(world: SealsWorld, account: string, of: Awaited<ReturnType<typeof rent>>, readyMs: number) {
  for (const table of ["deployment", "instance"])
    await world.pool.query(`update ${table} set account_id = $1 where deploy_id = $2`, [account, of.deployId]);
  const store = createGpuTimeStore(world.db);
  const startMs = Math.floor(Date.now() / minute) * minute;
  const clockAt = (atMs: number) => ({ monotonicMs: () => atMs, unixMs: () => atMs });
  await createGpuHolds({ store, log, clock: clockAt(startMs) }).renew([
    { ...of, account: account as typeof of.account },
  ]);
  const { settlementStore: settlement, quarantine, metrics } = world;
  const time = createGpuTime({ store, settlement, quarantine, metrics, log, clock: clockAt(startMs + minute) });
  const minutes = minutesOf(of, startMs, 1, readyMs);
  expect(await time.settle(minutes, "host" as HostId)).toBe(true);
  return minutes[0]?.id as string;
}

const rates = { inputRate: 1_234_567n, cachedInputRate: 98_765n, outputRate: 7_654_321n };
const texts = (input: number, cached: number, output: number) => ({
  inputRate: String(input),
  cachedInputRate: String(cached),
  outputRate: String(output),
});

/** Amounts were computed by hand, in whole numbers: tokens x rate, rounded half up once. */
async function makeBill() {
  const world = await openSeals(postgres);
  const account = await world.account(100n * usd);
  const priceVersion = await addPrice(world, {
    ...{ kind: "model", subject: "acme/text", ...rates, priorityPercent: 175, flexPercent: 60 },
  });
  const own = { priceVersion, model: "acme/text", ...texts(1_234_567, 98_765, 7_654_321) };
  await world.db
    .insertInto("discount")
    .values({
      ...{ discountId: "d1", name: "d1", text: "", basisPoints, accountId: null, model: null, surface: "container" },
      ...{ effectiveFrom: new Date(0), effectiveTo: null },
    })
    .execute();

  await settle(
    world,
    usageRecord(account, { input: 1_000_003, output: 777 }, { ...own, requestId: "plain", cachedInputTokens: "17" }),
    // Each rate is half as high again, rounded up.
    usageRecord(
      account,
      { input: 2_000_003, output: 333 },
      { ...own, ...texts(1_851_851, 148_148, 11_481_482), requestId: "adapter", model: "acme/adapter" },
    ),
    // 175 per cent, less 12.34 per cent, each rounded half up.
    usageRecord(
      account,
      { input: 3_000_007, output: 55 },
      {
        ...{ ...own, ...texts(1_893_887, 151_511, 11_742_112), requestId: "tier", cachedInputTokens: "1000" },
        ...{ tier: "priority", discountId: "d1" },
      },
    ),
  );
  await settle(world, usageRecord(account, { input: 700_001, output: 9 }, { ...own, requestId: "corrected" }));
  await settle(
    world,
    usageRecord(account, { input: 800_001, output: 9 }, { ...own, requestId: "corrected", attempt: 2 }),
  );
  const provider = await useProvider(world, account);
  const gpu = await rent(world, { kind: "gpu", hourRate: 2_345_678_901n }, { gpus: 2 });
  const container = await rent(world, { kind: "container", hourRate: 1_111_111_111n }, { plan: "small" });
  const requests = {
    ...{ plain: "plain", adapter: "adapter", tier: "tier", provider, first: "corrected", second: "corrected" },
    gpu: await settleMinute(world, account, gpu, 60_000),
    container: await settleMinute(world, account, container, 37_123),
  };
  return { world, account, requests };
}

/** The customer pays the price of the model; what its provider gets is counted elsewhere. */
async function useProvider(world: SealsWorld, account: Awaited<ReturnType<SealsWorld["account"]>>): Promise<string> {
  const { deployId } = await addInstance(world, { credit: 0n });
  const names = { month: providerMonthBudget, day: providerDayBudget, payer: providerPayer };
  const paid = { input: 0n, cachedInput: 0n, output: 1_000_000_000n, request: 500n };
  const terms = { rates: paid, monthLimit: nano(usd), dayLimit: null };
  await world.pool.query("update deployment set engine = 'external', num_gpus = 0 where deploy_id = $1", [deployId]);
  const store = createProviderStore(world.db, names);
  expect(await store.set({ by: account, ip: "" }, deployId, terms, Date.now())).toBe(true);
  const hold = await (await world.replica()).holdProvider({
    ...{ provider: deployId, hasMonthLimit: true, hasDayLimit: false, requestId: "provider" as never },
    ...{ admittedAtMs: Date.now(), amount: nano(10_000n) },
  });
  const price = { inputRate: 2_222_222n, cachedInputRate: 0n, outputRate: 3_333_333n };
  const priceVersion = await addPrice(world, { kind: "model", subject: "provider/model", ...price });
  await settle(
    world,
    usageRecord(
      account,
      { input: 44_444, output: 5 },
      {
        ...{
          requestId: "provider",
          deployId,
          priceVersion,
          model: "provider/model",
          ...texts(2_222_222, 0, 3_333_333),
        },
        provider: { leases: hold.leaseIds.length, rates: ["0", "0", "1000000000", "500"] },
        leaseIds: hold.leaseIds,
      },
    ),
  );
  expect((await world.budgetRow(providerMonthBudget(deployId, Date.now())))?.spent).toBe(5_500n);
  return "provider";
}

const costs = {
  ...{ plain: 1_240_499n, adapter: 3_707_531n, tier: 5_680_578n, provider: 98_781n, second: 987_724n },
  // 120 GPU seconds, and 37.123 s at a rate less 12.34 per cent.
  ...{ gpu: 78_189_297n, container: 10_043_834n },
};
const total = Object.values(costs).reduce((sum, cost) => sum + cost, 0n);

it("verifies to the nano-dollar, and names one altered record of each kind", { timeout: 120_000 }, async () => {
  const { world, account, requests } = await makeBill();
  await closeMonth(world);
  const [invoice] = (await world.billing.invoices.list(account, 1, undefined)).invoices;
  expect(invoice?.total).toBe(total);
  await world.seals.keys.newest();
  const keys = await publicKeys(world);
  const verified = async () => verdictOf(await world.exported(account), keys);
  const whole = await verified();
  expect(whole).toMatchObject({
    problems: [],
    notes: [],
    isClosed: true,
    isKeyTrusted: true,
    invoice: invoice?.id,
    total,
  });
  expect(whole).toMatchObject({ records: 8, corrections: 1 });
  expect(whole.prices.map(({ kind }) => kind).sort()).toEqual(["container", "gpu", "model", "model"]);
  const lines = whole.lines.map(({ model, discount, cost }) => [model, discount, cost]);
  expect(lines).toHaveLength(6);
  expect(lines).toEqual(
    expect.arrayContaining([
      ["acme/text", "", costs.plain + costs.second],
      ["acme/adapter", "", costs.adapter],
      ["acme/text", "d1", costs.tier],
      ["provider/model", "", costs.provider],
    ]),
  );

  const client = await world.pool.connect();
  try {
    await client.query("set session_replication_role = replica");
    for (const [kind, request] of Object.entries(requests))
      for (const column of kind === "gpu" || kind === "container" ? ["gpu_ms", "cost"] : ["output_tokens", "charge"]) {
        const change = (by: number) =>
          client.query(`update usage set ${column} = ${column} + $1 where request_id = $2 and attempt = $3`, [
            ...[by, request, kind === "second" ? 2 : 1],
          ]);
        await change(1);
        const { problems } = await verified();
        expect(problems[0], `${kind} ${column}`).toMatch(
          new RegExp(`^Request ${request} attempt ${kind === "second" ? 2 : 1} .* was altered`),
        );
        await change(-1);
      }
    const correct = (by: number) =>
      client.query(
        "update ledger_entry set amount = amount + $1 where kind = 'correction' and book = 'customer_spent'",
        [by],
      );
    await correct(1);
    // The captured amount of the record is its charge less its corrections.
    const { problems } = await verified();
    expect(problems).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^Request corrected attempt 1 .* was altered/),
        expect.stringMatching(/^Correction of request corrected attempt 1 .* was altered/),
      ]),
    );
    await correct(-1);
  } finally {
    await client.query("set session_replication_role = default");
    client.release();
  }
  expect(await verified()).toMatchObject({ problems: [], total });
});
