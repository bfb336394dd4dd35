// What providers are paid: reserved by several control planes at once, and counted once for each attempt that ran.
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type Hold, type ProviderHoldRequest, ProviderLimitReached } from "../../../control-plane/billing/hold.ts";
import { providerPayer } from "../../../control-plane/billing/leases.ts";
import { providerDayBudget, providerMonthBudget } from "../../../control-plane/billing/scopes.ts";
import { checkBooks } from "../../../control-plane/store/core/check-books.ts";
import { createProviderStore } from "../../../control-plane/store/money/provider-store.ts";
import { type AccountId, type DeploymentId, randomId } from "../../../proto/ids.ts";
import { type NanoUsd, nano } from "../../../proto/money.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { openWorld, patience, usageRecord, type World, wholeBooks } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

/** One generated token costs 1000 nano-USD, a request 500. */
const rates = { input: 0n, cachedInput: 0n, output: 1_000_000_000n, request: 500n };
const texts = ["0", "0", "1000000000", "500"] as const;
const costOf = (output: number) => nano(BigInt(output) * 1000n + 500n);
const names = { month: providerMonthBudget, day: providerDayBudget, payer: providerPayer };

async function openProvider(monthLimit: NanoUsd | null) {
  const world = await openWorld(postgres);
  const account = await world.account(1_000_000_000n);
  const provider = randomId<"deployment">(16);
  await world.pool.query(
    `insert into deployment (deploy_id, account_id, model_name, version, task, type, engine, status, gpu, num_gpus,
      max_batch_size, min_instances, max_instances, weights, extra_args, context_length, memory_bytes, pending_reasons)
      values ($1, $2, 'provider/model', 'v', 'text-generation', 'llm', 'external', 'deployed', 'other', 0, 8, 1, 1, '{}', '{}', 0, 0, '[]')`,
    [provider, account],
  );
  const store = createProviderStore(world.db, names);
  const terms = { rates, monthLimit, dayLimit: null };
  expect(await store.set({ by: account, ip: "" }, provider, terms, Date.now())).toBe(true);
  return { world, account, provider, store };
}

const request = (provider: DeploymentId, output: number): ProviderHoldRequest => ({
  provider,
  hasMonthLimit: true,
  hasDayLimit: false,
  requestId: randomId<"request">(24),
  admittedAtMs: Date.now(),
  amount: costOf(output),
});

function record(account: AccountId, { provider, requestId, admittedAtMs }: ProviderHoldRequest, hold: Hold, more = {}) {
  return usageRecord(
    account,
    { input: 0, output: 4 },
    {
      requestId,
      admittedAtMs: String(admittedAtMs),
      deployId: provider,
      leaseIds: hold.leaseIds,
      inputRate: "0",
      outputRate: "0",
      provider: { leases: hold.leaseIds.length, rates: texts },
      ...more,
    },
  );
}

const monthOf = (world: World, provider: DeploymentId) => world.budgetRow(providerMonthBudget(provider, Date.now()));

describe("the limit of a provider", () => {
  it("is met exactly by 200 requests at once over two control planes", async () => {
    const limit = nano(costOf(4) * 101n);
    const { world, account, provider } = await openProvider(limit);
    const replicas = [await world.replica(), await world.replica()];
    const asked = Array.from({ length: 200 }, () => request(provider, 4));
    const outcomes = await Promise.allSettled(
      asked.map(async (one, n) => (replicas[n % 2] as (typeof replicas)[number]).holdProvider(one)),
    );
    const held = outcomes.flatMap((outcome, n) =>
      outcome.status === "fulfilled" ? [{ hold: outcome.value, asked: asked[n] as ProviderHoldRequest }] : [],
    );
    expect(held).toHaveLength(101);
    for (const outcome of outcomes)
      if (outcome.status === "rejected") expect(outcome.reason).toBeInstanceOf(ProviderLimitReached);
    expect(await monthOf(world, provider)).toEqual({ limit, spent: 0n, leased: limit });
    for (const { hold } of held) hold.settle(costOf(4));
    const records = held.map((one) => record(account, one.asked, one.hold));
    expect(await world.settlement.settle(records, "1")).toHaveLength(101);
    expect(await monthOf(world, provider)).toEqual({ limit, spent: limit, leased: 0n });
    for (const replica of replicas) await replica.stop();
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });

  it("is free again for what a request did not use", async () => {
    const { world, account, provider } = await openProvider(costOf(10));
    const replica = await world.replica();
    const first = request(provider, 10);
    const hold = await replica.holdProvider(first);
    await expect(async () => replica.holdProvider(request(provider, 4))).rejects.toThrow(ProviderLimitReached);
    hold.settle(costOf(4));
    await world.settlement.settle([record(account, first, hold)], "1");
    await replica.tick();
    await expect
      .poll(
        async () => (await Promise.resolve().then(() => replica.holdProvider(request(provider, 5)))).amount,
        patience,
      )
      .toBe(costOf(5));
  });
});

describe("a request that another model served after a provider", () => {
  it("keeps its part of the provider's limit until its attempt there is recorded", async () => {
    const { world, account, provider } = await openProvider(costOf(10));
    const replica = await world.replica();
    const failed = request(provider, 10);
    const hold = await replica.holdProvider(failed);
    hold.awaitRecord(1);
    const { requestId, admittedAtMs } = failed;
    const served = { requestId, admittedAtMs: String(admittedAtMs), attempt: 2, leaseIds: [] };
    await world.settlement.settle([usageRecord(account, { input: 0, output: 4 }, served)], "1");
    await replica.tick();
    await expect(async () => replica.holdProvider(request(provider, 1))).rejects.toThrow(ProviderLimitReached);
    await world.settlement.settle([record(account, failed, hold)], "1");
    expect(await monthOf(world, provider)).toMatchObject({ spent: costOf(4) });
    await replica.tick();
    expect((await replica.holdProvider(request(provider, 5))).amount).toBe(costOf(5));
    await replica.stop();
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });
});

describe("a change of a provider's limit", () => {
  it("waits for a settlement of its budgets without a deadlock", async () => {
    const { world, account, provider, store } = await openProvider(costOf(10));
    const one = { ...request(provider, 4), hasDayLimit: true };
    await (await world.replica()).holdProvider(one);
    const client = await world.pool.connect();
    const lock = (budget: string) =>
      client.query("select from budget where budget_id = $1 for update", [budget]).then(({ rowCount }) => rowCount);
    try {
      // As settlements do: in the order of the names.
      await client.query("begin; set local lock_timeout = '500ms'");
      expect(await lock(providerDayBudget(provider, Date.now()))).toBe(1);
      const terms = { rates, monthLimit: costOf(20), dayLimit: costOf(20) };
      const changed = store.set({ by: account, ip: "" }, provider, terms, Date.now());
      await vi.waitFor(async () => {
        const waiting = await world.pool.query("select from pg_locks where not granted");
        expect(waiting.rowCount).toBeGreaterThan(0);
      }, patience);
      expect(await lock(providerMonthBudget(provider, Date.now()))).toBe(1);
      await client.query("commit");
      expect(await changed).toBe(true);
    } finally {
      client.release();
    }
  });
});

describe("what a provider is paid", () => {
  it("counts a record once however often it comes, and each attempt that ran", async () => {
    const { world, account, provider, store } = await openProvider(null);
    const one = request(provider, 4);
    const free = { leaseIds: [] } as unknown as Hold;
    const first = record(account, one, free);
    const second = record(account, one, free, { attempt: 2 });
    const refused = record(account, request(provider, 4), free, { outputTokens: "0" });
    for (const records of [[first], [first, refused], [second, first], [second]]) {
      expect(await world.settlement.settle(records, "1")).toHaveLength(records.length);
    }
    expect((await monthOf(world, provider))?.spent).toBe(costOf(4) * 2n);
    const [listed] = await store.list(Date.now(), 10);
    expect(listed).toMatchObject({ monthSpent: costOf(4) * 2n, daySpent: costOf(4) * 2n });
    expect(await store.list(Date.now(), 1, provider)).toEqual([listed]);
    expect(await store.list(Date.now(), 1, "unknown" as DeploymentId)).toEqual([]);
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });

  it("counts against a limit that is set in the middle of the month", async () => {
    const { world, account, provider, store } = await openProvider(null);
    await world.settlement.settle([record(account, request(provider, 4), { leaseIds: [] } as unknown as Hold)], "1");
    const terms = { rates, monthLimit: nano(costOf(4) * 2n), dayLimit: null };
    await store.set({ by: account, ip: "" }, provider, terms, Date.now());
    const replica = await world.replica();
    expect((await replica.holdProvider(request(provider, 4))).amount).toBe(costOf(4));
    await expect(async () => replica.holdProvider(request(provider, 1))).rejects.toThrow(ProviderLimitReached);
  });
});
