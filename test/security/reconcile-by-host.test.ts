// What one host can do to the state `needs_reconcile` of the whole fleet.
import { sql } from "kysely";
import { pino } from "pino";
import { afterAll, beforeAll, beforeEach, expect, it, onTestFinished } from "vitest";
import { createReconcile, type Reconcile } from "../../control-plane/fleet/reconcile.ts";
import type { ReconcileStore } from "../../control-plane/fleet/store.ts";
import { openDatabase } from "../../control-plane/store/core/database.ts";
import { createReconcileStore } from "../../control-plane/store/fleet/reconcile-store.ts";
import type { HostId } from "../../proto/ids.ts";
import { sharedPostgres, type TestDatabases } from "../fakes/postgres.ts";

const log = pino({ level: "silent" });
const evil = "host-evil" as HostId;
const honest = "host-honest" as HostId;
const maxInt64 = 2n ** 63n - 1n;
let postgres: TestDatabases;
let db: ReturnType<typeof openDatabase>["db"];
let store: ReconcileStore;
let reconcile: Reconcile;

beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres?.stop());
beforeEach(async () => {
  const database = openDatabase(await postgres.migratedDatabase(), { maxConnections: 5, log });
  onTestFinished(() => database.close());
  db = database.db;
  store = createReconcileStore(db);
  reconcile = await started();
});

/** A control plane that starts on the same database. */
async function started(): Promise<Reconcile> {
  const next = createReconcile({ store, log });
  await next.start();
  return next;
}

const says = (host: HostId, sign: { mark?: string; obeyed?: bigint }, at = reconcile) =>
  at.sawAgent({
    host,
    mark: sign.mark ?? "",
    isBehind: sign.obeyed !== undefined,
    highestEpoch: sign.obeyed ?? 0n,
  });

/** No host is registered, so nothing is waited for. */
const endOpen = () => store.endIfDone();
const opened = async () => (await db.selectFrom("reconcile").select("cause").orderBy("beganAt").execute()).length;
const daysPass = (days: number) =>
  db
    .updateTable("reconcileSign")
    .set({ openedAt: new Date(Date.now() - days * 86_400_000) })
    .execute();

it("ends although hosts report counts and times beyond every range", async () => {
  const { resendId: reconcileId } = await says(honest, { mark: "900:lost" });
  expect(reconcileId).not.toBe("");
  for (const host of [evil, honest])
    await store.sawResend(host, {
      reconcileId,
      records: maxInt64,
      dropped: maxInt64,
      droppedThroughMs: Number(maxInt64),
      isDone: true,
    });
  const report = await endOpen();
  expect(report).toMatchObject({ missingHosts: [], resent: 2_000_000_000, lostAtMost: 2_000_000_000 });
  expect(await store.open()).toBeUndefined();
});

it("opens at most one reconcile per host in 48 hours, however often the host invents a mark or an epoch", async () => {
  expect((await says(evil, { mark: "900:invented" })).resendId).not.toBe("");
  await endOpen();
  reconcile = await started();
  for (let attempt = 0; attempt < 20; attempt += 1) {
    const sign = attempt % 2 === 0 ? { mark: `9${attempt}00:invented` } : { obeyed: 10n ** 15n + BigInt(attempt) };
    expect((await says(evil, sign)).resendId).toBe("");
  }
  expect(await opened()).toBe(1);
  // Another host is judged on its own.
  expect((await says(honest, { mark: "901:lost" })).resendId).not.toBe("");
  await endOpen();
  reconcile = await started();
  await daysPass(1.9);
  expect((await says(evil, { mark: "902:invented" })).resendId).toBe("");
  await daysPass(2.1);
  expect((await says(evil, { mark: "903:invented" })).resendId).not.toBe("");
  expect(await opened()).toBe(3);
});

it("opens none again for a host that stays behind until it is adopted", async () => {
  await says(evil, { mark: "900:lost" });
  // While one is open, the sign of another host counts as dealt with.
  expect((await says(honest, { obeyed: 5_000n })).resendId).not.toBe("");
  await endOpen();
  for (const days of [0, 1, 3, 30]) {
    await daysPass(days);
    reconcile = await started();
    expect((await says(honest, { obeyed: 5_000n })).resendId).toBe("");
  }
  expect(await opened()).toBe(1);
  // Adopted, and restored once more: it has obeyed a higher epoch since.
  expect((await says(honest, { obeyed: 7_000n })).resendId).not.toBe("");
});

it("forgets a sign whose reconcile could not be opened", async () => {
  await sql`alter table reconcile add constraint refused check (cause = '')`.execute(db);
  await expect(says(honest, { mark: "900:lost" })).rejects.toThrow("refused");
  await sql`alter table reconcile drop constraint refused`.execute(db);
  expect((await says(honest, { mark: "900:lost" })).resendId).not.toBe("");
});
