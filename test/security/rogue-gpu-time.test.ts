// An enrolled host that lies about the GPU time of an instance that it really runs, over a real session and a real database.
import pino from "pino";
import { Registry } from "prom-client";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { createGpuHolds } from "../../control-plane/billing/gpu-holds.ts";
import { createBillingMetrics } from "../../control-plane/billing/metrics.ts";
import { createQuarantine } from "../../control-plane/billing/quarantine.ts";
import { monthScopes } from "../../control-plane/billing/scopes.ts";
import { createSettlement } from "../../control-plane/billing/settle.ts";
import { checkBooks } from "../../control-plane/store/core/check-books.ts";
import { createGpuTimeStore } from "../../control-plane/store/money/gpu-time-store.ts";
import { createQuarantineStore } from "../../control-plane/store/money/quarantine-store.ts";
import { createSettlementStore } from "../../control-plane/store/money/settlement-store.ts";
import { createGpuBilling } from "../../control-plane/wiring/money.ts";
import { gpuMinuteId, minuteOf } from "../../proto/gpu-minute.ts";
import { type AccountId, accountBudget, type HostId, type InstanceId, randomId } from "../../proto/ids.ts";
import type { SpooledRecord } from "../../proto/usage-record.ts";
import { type FakeAgent, startFakeAgent } from "../fakes/agent-session.ts";
import { sharedPostgres, type TestDatabases } from "../fakes/postgres.ts";
import { testSeals } from "../fakes/seals.ts";
import { addInstance } from "../integration/billing/gpu-instances.ts";
import { wholeBooks } from "../integration/billing/world.ts";
import { type Replica, startReplica } from "../integration/fleet/replica.ts";

const log = pino({ level: "silent" });
const wait = { timeout: 30_000, interval: 20 };
const usd = 1_000_000_000n;
const minute = 60_000;
/** USD 6 per GPU and hour: 10 cents a minute. */
const sixAnHour = 6n * usd;
const heldAhead = usd / 2n;

let postgres: TestDatabases;
let replica: Replica;
let rogue: FakeAgent;
let of: Awaited<ReturnType<typeof addInstance>>;
let nextSpoolId = 1;

beforeAll(async () => {
  postgres = await sharedPostgres();
  const metrics = createBillingMetrics(new Registry());
  replica = await startReplica(await postgres.migratedDatabase(), {
    settle: (db) => {
      const settlementStore = createSettlementStore(db, monthScopes);
      const quarantine = createQuarantine({ store: createQuarantineStore(db), metrics, log });
      const parts = { quarantine, log, metrics };
      const settlement = createSettlement({ ...parts, store: settlementStore, seals: testSeals, gatherMs: 0 });
      return createGpuBilling({ ...parts, db, settlement, settlementStore }).settle;
    },
  });
  rogue = await startFakeAgent({ address: replica.address, token: replica.joinToken, hostId: "rogue" });
  rogue.connect();
  await vi.waitFor(() => expect(rogue.welcome).toBeDefined(), wait);
});
afterAll(async () => {
  await rogue?.close();
  await replica?.stop();
  await postgres?.stop();
});

beforeEach(async () => {
  of = await addInstance({ db: replica.db, account }, { host: "rogue", createdAt: new Date() });
  await replica.db
    .insertInto("price")
    .values({ kind: "gpu", subject: of.gpu, hourRate: sixAnHour, effectiveFrom: new Date(0) })
    .execute();
  expect(await holds(Date.now()).renew([of])).toEqual([]);
  return async () => expect(await checkBooks(replica.db)).toEqual(wholeBooks);
});

/** A customer with USD 100. */
async function account(): Promise<AccountId> {
  const id = `u:${randomId(8)}` as AccountId;
  const row = { accountId: id, email: `${id}@example.com`, displayName: id };
  await replica.db
    .insertInto("account")
    .values({ ...row, wrappedDek: Buffer.alloc(60), kekVersion: 1 })
    .execute();
  await replica.db
    .insertInto("budget")
    .values({ budgetId: accountBudget(id), scope: "account", accountId: id, lim: 100n * usd, spent: 0n, leased: 0n })
    .execute();
  return id;
}

const holds = (nowMs: number) =>
  createGpuHolds({
    store: createGpuTimeStore(replica.db),
    log,
    clock: { monotonicMs: () => nowMs, unixMs: () => nowMs },
  });

const minuteAt = (startMs: number, change: object = {}): SpooledRecord => ({
  spoolId: String(nextSpoolId++),
  requestId: gpuMinuteId(of.instance, startMs),
  attempt: 1,
  admittedAtMs: startMs,
  endedAtMs: startMs + minute,
  instanceId: of.instance,
  deployId: of.deployId,
  nodeEpoch: rogue.welcome?.nodeEpoch ?? "",
  readyMs: minute,
  source: "engine",
  endReason: "stop",
  ...change,
});

/** Sends records over the session, as an agent does, and waits until they are acknowledged. */
async function send(records: readonly SpooledRecord[]): Promise<void> {
  rogue.send({ body: "usage", usage: { records: JSON.stringify(records) } });
  const ids = records.map((record) => String(record.spoolId));
  await expect.poll(() => ids.filter((id) => !rogue.acknowledged.includes(id)), wait).toEqual([]);
}

const budget = () =>
  replica.db
    .selectFrom("budget")
    .select(["spent", "leased"])
    .where("budgetId", "=", accountBudget(of.account))
    .executeTakeFirstOrThrow();
const usageRows = () => replica.db.selectFrom("usage").selectAll().where("instanceId", "=", of.instance).execute();
const quarantined = async () => {
  const rows = await replica.db
    .selectFrom("usageQuarantine")
    .select("problem")
    .where("record", "like", `%${of.instance}%`)
    .execute();
  return rows.map(({ problem }) => problem);
};

describe("GPU time that a host invents", () => {
  it("does not end the hold of a running instance with one minute of the year 9000", async () => {
    const startMs = Date.UTC(9000, 0, 1);
    await send([minuteAt(startMs, { endedAtMs: startMs + 1, readyMs: 1 })]);
    expect(await holds(Date.now() + minute).renew([of])).toEqual([]);
    expect((await budget()).leased).toBeGreaterThanOrEqual(heldAhead);
    expect(await quarantined()).toEqual(["outside_life"]);
    expect(await usageRows()).toEqual([]);
  });

  it("keeps minutes outside the life of the instance out of the ledger and of the customer's usage", async () => {
    const nowMs = minuteOf(Date.now());
    const years = [1971, 1999, 2025, 2099, 9998].map((year) => Date.UTC(year, 3, 1));
    const near = [-120, -60, -2, 2, 3, 60].map((minutes) => nowMs + minutes * minute);
    await send([...years, ...near].map((startMs) => minuteAt(startMs)));
    expect(await usageRows()).toEqual([]);
    expect(await quarantined()).toEqual(Array(11).fill("outside_life"));
    expect((await budget()).spent).toBe(0n);
  });

  it.each([
    ["a text", "60000"],
    ["a list", [60_000]],
    ["a fraction", 0.5],
    ["more than a minute", 60_001],
  ])("refuses ready time that is %s", async (_, readyMs) => {
    await send([minuteAt(minuteOf(Date.now()), { readyMs })]);
    expect(await usageRows()).toEqual([]);
    expect(await quarantined()).toEqual(["unsealed"]);
  });

  it("quarantines an id that PostgreSQL cannot hold, and settles the honest minute in the same batch", async () => {
    const startMs = minuteOf(Date.now());
    const zero = `${of.instance}\0`;
    const bad = minuteAt(startMs, { instanceId: zero, requestId: gpuMinuteId(zero as InstanceId, startMs) });
    const late = 9_000_000_000_000_000 - (9_000_000_000_000_000 % minute);
    await send([bad, minuteAt(late), minuteAt(startMs)]);
    expect(await usageRows()).toHaveLength(1);
  });

  it("is quarantined after the instance is gone", async () => {
    const nowMs = minuteOf(Date.now());
    await replica.db.deleteFrom("instance").where("instanceId", "=", of.instance).execute();
    const endedAt = new Date(nowMs - 5 * minute);
    await replica.db
      .insertInto("endedInstance")
      .values({ instanceId: of.instance, hostId: "rogue" as HostId, seenAgainAt: null, endedAt: endedAt })
      .execute();
    await send([-3, -2, -1, 0].map((minutes) => minuteAt(nowMs + minutes * minute)));
    expect(await usageRows()).toEqual([]);
    expect(await quarantined()).toHaveLength(4);
  });

  it("cannot lift the hold through a minute without a reservation", async () => {
    const nowMs = minuteOf(Date.now());
    await replica.db
      .updateTable("gpuHold")
      .set({ covered: "{}", settledUntil: new Date(0) })
      .where("instanceId", "=", of.instance)
      .execute();
    await send([minuteAt(nowMs, { readyMs: 1 })]);
    const hold = replica.db.selectFrom("gpuHold").select("settledUntil").where("instanceId", "=", of.instance);
    expect((await hold.executeTakeFirstOrThrow()).settledUntil).toEqual(new Date(0));
  });
});

describe("GPU time of an honest host", () => {
  it("is billed for the partial first minute of an instance and for the present one", async () => {
    const nowMs = minuteOf(Date.now());
    const createdAt = new Date(nowMs - minute + 59_000);
    await replica.db
      .updateTable("instance")
      .set({ createdAt: createdAt })
      .where("instanceId", "=", of.instance)
      .execute();
    await send([minuteAt(nowMs - minute, { readyMs: 1_000 }), minuteAt(nowMs)]);
    expect(await usageRows()).toHaveLength(2);
    expect((await budget()).spent).toBe(usd / 10n);
  });

  it("is settled two days late, after an outage of the control plane", async () => {
    const nowMs = minuteOf(Date.now());
    const createdAt = new Date(nowMs - 3 * 86_400_000);
    await replica.db
      .updateTable("instance")
      .set({ createdAt: createdAt })
      .where("instanceId", "=", of.instance)
      .execute();
    await send([minuteAt(nowMs - 2 * 86_400_000), minuteAt(nowMs - minute)]);
    expect(await usageRows()).toHaveLength(2);
    expect(await quarantined()).toEqual([]);
  });

  it("reserves the money of coming minutes again where an earlier version noted them as settled", async () => {
    await replica.db
      .updateTable("gpuHold")
      .set({ settledUntil: new Date(Date.UTC(9000, 0, 1)) })
      .where("instanceId", "=", of.instance)
      .execute();
    await holds(Date.now() + minute).renew([of]);
    expect((await budget()).leased).toBeGreaterThanOrEqual(heldAhead - usd / 10n);
  });
});
