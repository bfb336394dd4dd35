import pino from "pino";
import { Registry } from "prom-client";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createGpuHolds } from "../../../control-plane/billing/gpu-holds.ts";
import type { GpuMinute } from "../../../control-plane/billing/gpu-minute.ts";
import { createGpuTime } from "../../../control-plane/billing/gpu-time.ts";
import { createBillingMetrics } from "../../../control-plane/billing/metrics.ts";
import { monthScopes } from "../../../control-plane/billing/scopes.ts";
import { checkBooks } from "../../../control-plane/store/core/check-books.ts";
import { createContainerStore } from "../../../control-plane/store/deployments/containers-store.ts";
import { createGpuTimeStore } from "../../../control-plane/store/money/gpu-time-store.ts";
import { createPriceStore } from "../../../control-plane/store/money/price-store.ts";
import { createSettlementStore } from "../../../control-plane/store/money/settlement-store.ts";
import { createUsageStore } from "../../../control-plane/store/money/usage-store.ts";
import { asleepMinuteId } from "../../../proto/gpu-minute.ts";
import type { AccountId, HostId } from "../../../proto/ids.ts";
import { randomId } from "../../../proto/ids.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { addInstance, addSibling, type InstanceOptions, minutesOf } from "./gpu-instances.ts";
import { openWorld, type World, wholeBooks } from "./world.ts";

const log = pino({ level: "silent" });
const minute = 60_000;
const noon = Date.UTC(2026, 0, 5, 12, 0, 0);
const usd = 1_000_000_000n;
/** USD 6 per GPU and hour: 10 cents a minute. */
const sixAnHour = 6n * usd;
const cents = (n: number) => BigInt(n) * 10_000_000n;

let postgres: TestDatabases;
let world: World;
let nowMs: number;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres?.stop());
beforeEach(async () => {
  nowMs = noon;
  world = await openWorld(postgres);
  // Whatever happened, the books balance.
  return async () => expect(await checkBooks(world.db)).toEqual(wholeBooks);
});

const instanceOf = (options: InstanceOptions = {}) => addInstance(world, options);
type Running = Awaited<ReturnType<typeof instanceOf>>;

async function setPrice(gpu: string, hourRate: bigint, fromMs: number) {
  const row = await world.db
    .insertInto("price")
    .values({ kind: "gpu", subject: gpu, hourRate: hourRate, effectiveFrom: new Date(fromMs) })
    .returning("priceVersion")
    .executeTakeFirstOrThrow();
  return row.priceVersion;
}

function controlPlane(store = createGpuTimeStore(world.db)) {
  const registry = new Registry();
  const metrics = createBillingMetrics(registry);
  const clock = { monotonicMs: () => nowMs, unixMs: () => nowMs };
  let sentMs = nowMs;
  const time = createGpuTime({
    store,
    settlement: createSettlementStore(world.db, monthScopes),
    quarantine: world.quarantine,
    metrics,
    log,
    clock: { ...clock, unixMs: () => sentMs },
  });
  return {
    registry,
    holds: createGpuHolds({ store, log, clock }),
    time: {
      settle(minutes: readonly GpuMinute[], from = "host") {
        // An agent sends a minute once it is over.
        sentMs = Math.max(nowMs, ...minutes.map((one) => one.startMs + minute));
        return time.settle(minutes, from as HostId);
      },
    },
  };
}

const stop = (of: Running) =>
  world.db.updateTable("instance").set({ tombstonedAt: new Date() }).where("instanceId", "=", of.instance).execute();

async function ledgerOf(account: AccountId, book: string) {
  const rows = await world.db
    .selectFrom("ledgerEntry")
    .select(["amount"])
    .where("accountId", "=", account)
    .where("book", "=", book)
    .where("requestId", "is not", null)
    .execute();
  return rows.reduce((sum, row) => sum + row.amount, 0n);
}

it("is quarantined, not billed, when usage records of its time have expired", async () => {
  const of = await instanceOf();
  await setPrice(of.gpu, sixAnHour, noon - minute);
  const { holds, time } = controlPlane();
  await holds.renew([of]);
  await world.pool.query("insert into usage_retention values ('2026-02-01')");
  expect(await time.settle(minutesOf(of, noon, 1))).toBe(true);
  const { rows } = await world.pool.query("select problem from usage_quarantine");
  expect(rows).toEqual([{ problem: "expired" }]);
  expect(await ledgerOf(of.account, "customer_spent")).toBe(0n);
});

describe("time asleep", () => {
  const asleep = (of: Running, ms: number): GpuMinute => {
    const [one] = minutesOf(of, noon, 1) as [GpuMinute];
    return { ...one, id: asleepMinuteId(of.instance, noon) as GpuMinute["id"], readyMs: ms, isAsleep: true };
  };

  it.each(["together", "apart"])("is at most 60 seconds of a minute with the time awake, settled %s", async (how) => {
    const of = await instanceOf();
    await setPrice(of.gpu, sixAnHour, noon - minute);
    const { holds, time } = controlPlane();
    await holds.renew([of]);
    const [awake] = minutesOf(of, noon, 1) as [GpuMinute];
    const both = [{ ...awake, readyMs: 45_000 }, asleep(of, 60_000)];
    const parts = how === "together" ? [both] : both.map((one) => [one]);
    for (const part of [...parts, ...parts]) expect(await time.settle(part)).toBe(true);
    const rows = await world.db.selectFrom("usage").select("gpuMs").where("instanceId", "=", of.instance).execute();
    const times = rows.map(({ gpuMs }) => Number(gpuMs));
    expect(times.toSorted((a, b) => a - b)).toEqual([15_000, 45_000]);
  });

  it("is at most 60 seconds with the time awake where two control planes settle both at the same time", async () => {
    const of = await instanceOf();
    await setPrice(of.gpu, sixAnHour, noon - minute);
    await controlPlane().holds.renew([of]);
    const [awake] = minutesOf(of, noon, 1) as [GpuMinute];
    const store = createGpuTimeStore(world.db);
    const both = Promise.withResolvers<void>();
    let lookups = 0;
    // Neither writes before both have read.
    const lookUp: typeof store.lookUp = async (...given) => {
      const known = await store.lookUp(...given);
      if (++lookups === 2) both.resolve();
      await both.promise;
      return known;
    };
    const one = controlPlane({ ...store, lookUp });
    const other = controlPlane({ ...store, lookUp });
    const settled = await Promise.all([one.time.settle([awake]), other.time.settle([asleep(of, 60_000)])]);
    expect(settled.toSorted()).toEqual([false, true]);
    // As an agent does with what was not acknowledged: nothing is left of the minute beside 60 seconds of the other kind.
    expect(await controlPlane().time.settle([awake, asleep(of, 60_000)])).toBe(true);
    const rows = await world.db.selectFrom("usage").select("totalMs").where("instanceId", "=", of.instance).execute();
    expect(rows.map(({ totalMs }) => Number(totalMs))).toEqual([60_000]);
  });

  it("costs the instance's share of the GPU, as its time awake does", async () => {
    const of = await instanceOf();
    await world.db.updateTable("instance").set({ gpuShare: 0.25 }).where("instanceId", "=", of.instance).execute();
    await setPrice(of.gpu, sixAnHour, noon - minute);
    const price = { hourRate: sixAnHour / 10n, effectiveFrom: new Date(noon - minute) };
    await world.db
      .insertInto("price")
      .values({ kind: "gpu_asleep", subject: of.gpu, ...price })
      .execute();
    const { holds, time } = controlPlane();
    await holds.renew([of]);
    const [awake] = minutesOf(of, noon, 1) as [GpuMinute];
    expect(await time.settle([{ ...awake, readyMs: 30_000 }, asleep(of, 30_000)])).toBe(true);
    expect(await ledgerOf(of.account, "customer_spent")).toBe((cents(5) + cents(1) / 2n) / 4n);
  });

  it("costs its own price beside the time awake of the same minute, once, on a row of its own", async () => {
    const of = await instanceOf();
    const awakePrice = await setPrice(of.gpu, sixAnHour, noon - minute);
    const { priceVersion: asleepPrice } = await world.db
      .insertInto("price")
      .values({
        kind: "gpu_asleep",
        subject: of.gpu,
        hourRate: sixAnHour / 10n,
        effectiveFrom: new Date(noon - minute),
      })
      .returning("priceVersion")
      .executeTakeFirstOrThrow();
    const { hourRates } = createContainerStore(world.db);
    const [rates, asleepRates] = await Promise.all([hourRates(), hourRates("gpu_asleep")]);
    expect([rates.get(of.gpu), asleepRates.get(of.gpu)]).toEqual([sixAnHour, sixAnHour / 10n]);
    const { holds, time } = controlPlane();
    await holds.renew([of]);
    const [awake] = minutesOf(of, noon, 1) as [GpuMinute];
    const both = [{ ...awake, readyMs: 30_000 }, asleep(of, 30_000)];
    expect(await time.settle([...both, ...both])).toBe(true);
    // In another order, and again, as after a kill of the agent.
    expect(await time.settle(both.toReversed())).toBe(true);
    expect(await ledgerOf(of.account, "customer_spent")).toBe(cents(5) + cents(1) / 2n);
    const rows = await world.db
      .selectFrom("usage")
      .select(["priceVersion", "gpuMs", "cost"])
      .where("instanceId", "=", of.instance)
      .orderBy("priceVersion")
      .execute();
    expect(rows.map((row) => ({ version: row.priceVersion, ms: Number(row.gpuMs), cost: row.cost }))).toEqual([
      { version: awakePrice, ms: 30_000, cost: cents(5) },
      { version: asleepPrice, ms: 30_000, cost: cents(1) / 2n },
    ]);
  });

  it("is free without a price, and keeps the hold of an instance that sleeps", async () => {
    const of = await instanceOf();
    await setPrice(of.gpu, sixAnHour, noon - minute);
    const { holds, time } = controlPlane();
    await holds.renew([of]);
    await world.db.updateTable("instance").set({ phase: "asleep" }).where("instanceId", "=", of.instance).execute();
    expect(await time.settle([asleep(of, 60_000)])).toBe(true);
    expect(await ledgerOf(of.account, "customer_spent")).toBe(0n);
    nowMs += minute;
    expect(await holds.renew([of])).toEqual([]);
    expect(await world.budget(of.account)).toEqual({ limit: 100n * usd, spent: 0n, leased: cents(50) });
  });
});

describe("GPU time of a dedicated deployment", () => {
  it("is captured once per minute from what was held, with model, price version and GPU milliseconds on the row", async () => {
    const of = await instanceOf({ gpus: 2 });
    const version = await setPrice(of.gpu, sixAnHour, noon - minute);
    const { holds, time, registry } = controlPlane();
    expect(await holds.renew([of])).toEqual([]);
    // Five minutes of two GPUs.
    expect(await world.budget(of.account)).toEqual({ limit: 100n * usd, spent: 0n, leased: cents(100) });
    const sent = minutesOf(of, noon, 2);
    expect(await time.settle([...sent, ...sent])).toBe(true);
    expect(await time.settle(sent)).toBe(true);
    expect(await world.budget(of.account)).toEqual({ limit: 100n * usd, spent: cents(40), leased: cents(60) });
    const rows = await world.db.selectFrom("usage").selectAll().where("instanceId", "=", of.instance).execute();
    expect(rows).toHaveLength(2);
    expect(rows[0]).toMatchObject({
      accountId: of.account,
      keyId: "",
      deployId: of.deployId,
      model: `acme/${of.instance}`,
      gpuMs: 120_000n,
      priceVersion: version,
      charge: cents(20),
    });
    const entries = await world.db
      .selectFrom("ledgerEntry")
      .select(["model", "kind", "book"])
      .where("accountId", "=", of.account)
      .where("requestId", "like", "gpu:%")
      .execute();
    expect(entries).toHaveLength(4);
    expect(entries.every((one) => one.model === `acme/${of.instance}` && one.kind === "capture")).toBe(true);
    expect(await registry.metrics()).toContain(`stoker_gpu_seconds_billed_total{gpu="${of.gpu}"} 240`);
  });

  it("costs what it lasted: part of a minute is part of its price, and milliseconds are not rounded up", async () => {
    const of = await instanceOf();
    await setPrice(of.gpu, sixAnHour, noon - minute);
    const { holds, time } = controlPlane();
    await holds.renew([of]);
    await time.settle(minutesOf(of, noon, 1, 1));
    // USD 6 an hour for one millisecond, rounded to the nano-dollar.
    expect((await world.budget(of.account)).spent).toBe(1_667n);
  });

  it("changes price at the minute in which a version takes effect, held in advance at both prices", async () => {
    const of = await instanceOf();
    const old = await setPrice(of.gpu, sixAnHour, noon - minute);
    const next = await setPrice(of.gpu, 2n * sixAnHour, noon + 2 * minute);
    const { holds, time } = controlPlane();
    await holds.renew([of]);
    expect((await world.budget(of.account)).leased).toBe(cents(2 * 10 + 3 * 20));
    await time.settle(minutesOf(of, noon, 5));
    const rows = await world.db
      .selectFrom("usage")
      .select(["priceVersion", "charge"])
      .where("instanceId", "=", of.instance)
      .orderBy("admittedAt")
      .execute();
    expect(rows.map((row) => [row.priceVersion, row.charge])).toEqual([
      [old, cents(10)],
      [old, cents(10)],
      [next, cents(20)],
      [next, cents(20)],
      [next, cents(20)],
    ]);
    expect((await world.budget(of.account)).leased).toBe(0n);
    expect(await ledgerOf(of.account, "platform_loss")).toBe(0n);
  });

  it("is held minute by minute for as long as the instance runs, once however many replicas renew it", async () => {
    const of = await instanceOf();
    await setPrice(of.gpu, sixAnHour, noon - minute);
    const replicas = [controlPlane(), controlPlane(), controlPlane()];
    const [{ time }] = replicas as [ReturnType<typeof controlPlane>];
    for (let passed = 0; passed < 8; passed++) {
      const refused = await Promise.all(replicas.map(({ holds }) => holds.renew([of])));
      expect(refused.flat()).toEqual([]);
      expect(await world.budget(of.account)).toMatchObject({ spent: cents(10 * passed), leased: cents(50) });
      await time.settle(minutesOf(of, nowMs, 1));
      nowMs += minute;
    }
    expect(await ledgerOf(of.account, "platform_loss")).toBe(0n);
  });

  it("goes on holding what was promised and is not settled yet", async () => {
    const of = await instanceOf();
    await setPrice(of.gpu, sixAnHour, noon - minute);
    const { holds, time } = controlPlane();
    for (let passed = 0; passed < 4; passed++, nowMs += minute) await holds.renew([of]);
    expect((await world.budget(of.account)).leased).toBe(cents(80));
    await time.settle(minutesOf(of, noon, 4));
    expect(await world.budget(of.account)).toMatchObject({ spent: cents(40), leased: cents(40) });
  });

  it("beyond the hold is the platform's loss: a control plane that was away ten minutes bills five", async () => {
    const of = await instanceOf();
    await setPrice(of.gpu, sixAnHour, noon - minute);
    const before = controlPlane();
    await before.holds.renew([of]);
    nowMs += 10 * minute;
    const after = controlPlane();
    // Whichever comes first, the records or the renewal.
    await after.time.settle(minutesOf(of, noon, 3));
    await after.holds.renew([of]);
    await after.time.settle(minutesOf(of, noon + 3 * minute, 7));
    expect((await world.budget(of.account)).spent).toBe(cents(50));
    expect(await ledgerOf(of.account, "customer_spent")).toBe(cents(50));
    expect(await ledgerOf(of.account, "platform_loss")).toBe(cents(50));
    await after.time.settle(minutesOf(of, nowMs, 1));
    expect((await world.budget(of.account)).spent).toBe(cents(60));
  });

  it("is refused once it does not fit, says what is missing, and what was held still pays until then", async () => {
    const of = await instanceOf({ credit: cents(70) });
    await setPrice(of.gpu, sixAnHour, noon - minute);
    const { holds, time } = controlPlane();
    for (let passed = 0; passed < 3; passed++, nowMs += minute) {
      expect(await holds.renew([of])).toEqual([]);
      await time.settle(minutesOf(of, nowMs, 1));
    }
    // 30 spent, 40 still held: the fifth minute ahead is one too many.
    expect(await holds.renew([of])).toEqual([
      {
        instance: of.instance,
        deployId: of.deployId,
        account: of.account,
        why: { kind: "funds", needed: cents(50) },
        leftMs: 4 * minute,
      },
    ]);
    await time.settle(minutesOf(of, nowMs, 6));
    expect(await world.budget(of.account)).toEqual({ limit: cents(70), spent: cents(70), leased: 0n });
    expect(await ledgerOf(of.account, "platform_loss")).toBe(cents(20));
  });

  it("is refused when the month's limit has no room for it, and never goes above that limit", async () => {
    const of = await instanceOf();
    await setPrice(of.gpu, sixAnHour, noon - minute);
    await world.db
      .updateTable("account")
      .set({ monthlyLimit: cents(60) })
      .where("accountId", "=", of.account)
      .execute();
    const { holds, time } = controlPlane();
    await holds.renew([of]);
    await time.settle(minutesOf(of, nowMs, 1));
    nowMs += minute;
    // 10 spent, 40 held: the minute after them just fits, the next one does not.
    expect(await holds.renew([of])).toEqual([]);
    nowMs += minute;
    expect(await holds.renew([of])).toMatchObject([{ why: { kind: "funds" }, leftMs: 4 * minute }]);
    await time.settle(minutesOf(of, noon + minute, 9));
    expect((await world.budget(of.account)).spent).toBe(cents(60));
  });

  it("of ten instances together is held only as far as the month's limit has room", async () => {
    const first = await instanceOf();
    const all = [first, ...(await Promise.all(Array.from({ length: 9 }, () => addSibling(world, first))))];
    await setPrice(first.gpu, sixAnHour, noon - minute);
    await world.db
      .updateTable("account")
      .set({ monthlyLimit: cents(120) })
      .where("accountId", "=", first.account)
      .execute();
    const { holds, time } = controlPlane();
    const replicas = [holds, controlPlane().holds];
    await Promise.all(replicas.map((one) => one.renew(all)));
    // Five minutes of two instances; the other eight are told so in advance instead of being lost to the platform.
    expect((await world.budget(first.account)).leased).toBe(cents(100));
    expect(await holds.renew(all)).toHaveLength(8);
    for (const one of all) await time.settle(minutesOf(one, noon, 5));
    expect((await world.budget(first.account)).spent).toBe(cents(100));
  });

  it("is refused to a suspended account, with the reason", async () => {
    const of = await instanceOf();
    await setPrice(of.gpu, sixAnHour, noon - minute);
    const { holds } = controlPlane();
    await world.db.updateTable("account").set({ suspendReason: "admin" }).where("accountId", "=", of.account).execute();
    expect(await holds.renew([of])).toMatchObject([{ why: { kind: "suspended", reason: "admin" }, leftMs: 0 }]);
    expect((await world.budget(of.account)).leased).toBe(0n);
  });

  it("ends with the instance: nothing after that minute is billed, and what is left goes back", async () => {
    const of = await instanceOf();
    await setPrice(of.gpu, sixAnHour, noon - minute);
    const { holds, time } = controlPlane();
    await holds.renew([of]);
    nowMs += minute + 20_000;
    await stop(of);
    await holds.renew([]);
    // The host did not hear of it and metered on.
    await time.settle(minutesOf(of, noon, 4));
    expect((await world.budget(of.account)).spent).toBe(cents(20));
    expect(await ledgerOf(of.account, "platform_loss")).toBe(cents(20));
    nowMs += 3 * minute + 1;
    await holds.renew([]);
    expect((await world.budget(of.account)).leased).toBe(0n);
    expect((await world.openLeases()).filter((lease) => lease.budgetId === `account/${of.account}`)).toEqual([]);
  });

  it("is free where the GPU type has no price, and is counted all the same", async () => {
    const of = await instanceOf({ credit: 0n });
    const { holds, time } = controlPlane();
    expect(await holds.renew([of])).toEqual([]);
    await time.settle(minutesOf(of, noon, 1));
    const row = await world.db
      .selectFrom("usage")
      .select(["gpuMs", "charge", "priceVersion"])
      .where("instanceId", "=", of.instance)
      .executeTakeFirstOrThrow();
    expect(row).toEqual({ gpuMs: 60_000n, charge: 0n, priceVersion: 0n });
    expect(await holds.firstMinutes(of.gpu, 1, 1, { account: of.account, model: "" })).toBe(0n);
  });

  it("asks for the first five minutes of every instance", async () => {
    const of = await instanceOf();
    await setPrice(of.gpu, sixAnHour, noon - minute);
    nowMs += 30_000;
    expect(await controlPlane().holds.firstMinutes(of.gpu, 2, 3, { account: of.account, model: "" })).toBe(
      cents(10 * 5 * 2 * 3),
    );
  });

  it("costs less a discount that is in effect when the minute begins, held and captured at the same rate, named on the row", async () => {
    const of = await instanceOf();
    await setPrice(of.gpu, sixAnHour, noon - minute);
    const model = `acme/${of.instance}`;
    const discounts = createPriceStore(world.db);
    const half = {
      ...{
        id: `half-${of.instance}`,
        name: "Half",
        text: "two minutes",
        basisPoints: 5_000,
        account: of.account,
        model,
      },
      ...{ surface: "gpu", effectiveFromMs: noon + minute, effectiveToMs: noon + 3 * minute },
    };
    await discounts.addDiscount(half);
    // Neither another surface's nor another account's counts.
    const other = await instanceOf();
    await discounts.addDiscount({ ...half, id: `chat-${of.instance}`, surface: "chat", basisPoints: 10_000 });
    await discounts.addDiscount({ ...half, id: `other-${of.instance}`, account: other.account, basisPoints: 10_000 });
    const { holds, time } = controlPlane();
    expect(await holds.firstMinutes(of.gpu, 1, 1, { account: of.account, model })).toBe(cents(3 * 10 + 2 * 5));
    await holds.renew([of]);
    expect((await world.budget(of.account)).leased).toBe(cents(3 * 10 + 2 * 5));
    await time.settle(minutesOf(of, noon, 5));
    const rows = await world.db
      .selectFrom("usage")
      .select(["discountId", "charge"])
      .where("instanceId", "=", of.instance)
      .orderBy("admittedAt")
      .execute();
    expect(rows.map((row) => [row.discountId, row.charge])).toEqual([
      [null, cents(10)],
      [half.id, cents(5)],
      [half.id, cents(5)],
      [null, cents(10)],
      [null, cents(10)],
    ]);
    expect((await world.budget(of.account)).leased).toBe(0n);
    expect(await ledgerOf(of.account, "platform_loss")).toBe(0n);
    const lines = await createUsageStore(world.db).monthLines(of.account, 0, 9999 * 12);
    expect(lines.map((line) => [line.discount?.name ?? "", line.milliUnits, line.cost])).toEqual([
      ["", 180_000n, cents(30)],
      ["Half", 120_000n, cents(10)],
    ]);
  });

  it("of a deployment that nobody knows bills nobody and is not sent again", async () => {
    const of = await instanceOf();
    const { time } = controlPlane();
    expect(await time.settle(minutesOf({ ...of, deployId: randomId(16) }, noon, 1))).toBe(true);
  });

  it("bills nobody when another host sent it or for another deployment, is quarantined, and does not stand in for the true one", async () => {
    const of = await instanceOf();
    const victim = await instanceOf();
    for (const { gpu } of [of, victim]) await setPrice(gpu, sixAnHour, noon - minute);
    const { holds, time } = controlPlane();
    await holds.renew([of, victim]);
    expect(await time.settle(minutesOf(victim, noon, 3), "other host")).toBe(true);
    expect(await time.settle(minutesOf({ ...victim, deployId: of.deployId }, noon, 3))).toBe(true);
    expect(await time.settle(minutesOf({ ...victim, instance: "made-up" as never }, noon, 1))).toBe(true);
    expect(await world.budget(victim.account)).toMatchObject({ spent: 0n, leased: cents(50) });
    expect(await ledgerOf(victim.account, "platform_loss")).toBe(0n);
    const kept = await world.db.selectFrom("usageQuarantine").select(["requestId", "why"]).execute();
    expect(kept).toHaveLength(7);
    // Its row may be forgotten before its last minutes come.
    await world.db.deleteFrom("instance").where("instanceId", "=", victim.instance).execute();
    expect(await time.settle(minutesOf(victim, noon, 3))).toBe(true);
    expect(await world.budget(victim.account)).toMatchObject({ spent: cents(30), leased: cents(20) });
  });
});
