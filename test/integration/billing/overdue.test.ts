// Replies whose usage record is late, while the database has an outage and after it.
import { afterAll, beforeAll, expect, it } from "vitest";
import type { LeaseStore } from "../../../control-plane/billing/store.ts";
import { DatabaseUnavailable } from "../../../control-plane/service-error.ts";
import { nano } from "../../../proto/money.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { ask, handClock, openWorld } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

it("reports no count during an outage, and 30 s after it those whose record has still not come", async () => {
  const world = await openWorld(postgres);
  const account = await world.account(1_000_000_000n);
  const clock = handClock();
  let isDown = false;
  const sync: LeaseStore["sync"] = async (...args) => {
    if (isDown) throw new DatabaseUnavailable("unreachable");
    return world.leaseStore.sync(...args);
  };
  const budgets = await world.replica({ clock, store: { ...world.leaseStore, sync } });
  let reports = 0;
  const hold = await budgets.hold(ask(account, 1_000n));
  hold.settle(nano(500n), 1, () => {
    reports += 1;
  });
  await budgets.tick();
  isDown = true;
  clock.pass(45_000);
  await budgets.tick();
  expect(reports).toBe(0);
  isDown = false;
  await budgets.tick();
  clock.pass(29_000);
  await budgets.tick();
  expect(reports).toBe(0);
  clock.pass(1_000);
  await budgets.tick();
  expect(reports).toBe(1);
});

it("reports those of an outage after which their leases are forgotten, each once", async () => {
  const world = await openWorld(postgres);
  const account = await world.account(1_000_000_000n);
  const clock = handClock();
  let isDown = false;
  const sync: LeaseStore["sync"] = async (...args) => {
    if (isDown) throw new DatabaseUnavailable("unreachable");
    return world.leaseStore.sync(...args);
  };
  const budgets = await world.replica({ clock, store: { ...world.leaseStore, sync } });
  let reports = 0;
  const hold = await budgets.hold(ask(account, 1_000n));
  hold.settle(nano(500n), 1, () => {
    reports += 1;
  });
  await budgets.tick();
  isDown = true;
  // The slice retires with its age, and is forgotten a minute after its last request.
  for (const ms of [300_000, 60_000]) {
    clock.pass(ms);
    await budgets.tick();
  }
  isDown = false;
  for (let passed = 0; passed < 30_000; passed += 10_000) {
    await budgets.tick();
    clock.pass(10_000);
  }
  expect(reports).toBe(0);
  await budgets.tick();
  expect(reports).toBe(1);
});

it("looks for the records of such an outage, although it has no lease any more, and reports none that has come", async () => {
  const world = await openWorld(postgres);
  const account = await world.account(1_000_000_000n);
  const clock = handClock();
  let isDown = false;
  const lookups: string[] = [];
  const sync: LeaseStore["sync"] = async (replica, leases, requests, ttlMs) => {
    if (isDown) throw new DatabaseUnavailable("unreachable");
    lookups.push(...requests);
    const found = await world.leaseStore.sync(replica, leases, requests, ttlMs);
    // As if its agent had sent it.
    return leases.length === 0 ? { ...found, recorded: new Map(requests.map((id) => [id, [1]])) } : found;
  };
  const budgets = await world.replica({ clock, store: { ...world.leaseStore, sync } });
  let reports = 0;
  const hold = await budgets.hold(ask(account, 1_000n));
  hold.settle(nano(500n), 1, () => {
    reports += 1;
  });
  await budgets.tick();
  isDown = true;
  for (const ms of [300_000, 60_000]) {
    clock.pass(ms);
    await budgets.tick();
  }
  isDown = false;
  lookups.length = 0;
  for (let passed = 0; passed < 60_000; passed += 10_000) {
    await budgets.tick();
    clock.pass(10_000);
  }
  expect(lookups).toHaveLength(1);
  expect(reports).toBe(0);
});

it("reports complete replies when it stops, but not what a client had received that left", async () => {
  const world = await openWorld(postgres);
  const account = await world.account(1_000_000_000n);
  const budgets = await world.replica({ clock: handClock() });
  const reports: string[] = [];
  (await budgets.hold(ask(account, 1_000n))).settle(nano(500n), 1, () => reports.push("whole"));
  (await budgets.hold(ask(account, 1_000n))).awaitRecord(1, () => reports.push("left"));
  await budgets.stop();
  expect(reports).toEqual(["whole"]);
});
