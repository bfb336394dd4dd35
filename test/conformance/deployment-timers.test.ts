// Timers of deployments over BullMQ's two stores, each on a real server that is killed and wiped.
import pino from "pino";
import { Registry } from "prom-client";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import type { Timer } from "../../control-plane/deployments/timers.ts";
import type { JobsAddress } from "../../control-plane/jobs/backend.ts";
import { createDeploymentTimers } from "../../control-plane/jobs/deployment-timers.ts";
import type { DeploymentId } from "../../proto/ids.ts";
import { jobStores } from "../fakes/job-stores.ts";
import { withoutRedis } from "../fakes/redis.ts";

const patient = { timeout: 30_000, interval: 50 };
const log = pino({ level: "silent" });

withoutRedis("timers of deployments kept in Redis");

const due = (id: string, inMs = 0): Timer => ({ id: id as DeploymentId, kind: "due", atMs: Date.now() + inMs });

/** One control plane's timers. `refuse`: so often a deployment's wake throws. */
function start(address: JobsAddress, refuse: Record<string, number> = {}) {
  const registry = new Registry();
  const timers = createDeploymentTimers({ address, log, registry, pollEveryMs: 300 });
  const woken: { readonly id: string; readonly atMs: number }[] = [];
  timers.start(async (id) => {
    woken.push({ id, atMs: Date.now() });
    if (woken.filter((one) => one.id === id).length <= (refuse[id] ?? 0)) throw new Error("lost every race");
  });
  onTestFinished(() => timers.stop());
  return {
    ...timers,
    woken,
    ids: () => woken.map(({ id }) => id),
    /** As the queue is looked at from here, some time after now. */
    counts: (state: string, count: number) =>
      vi.waitFor(async () => {
        const text = await registry.getSingleMetricAsString("bullmq_job_count");
        expect(text.split("\n")).toContain(`bullmq_job_count{queue="stoker-deployments",state="${state}"} ${count}`);
      }, patient),
  };
}

const everyState = ["waiting", "prioritized", "delayed", "active", "failed", "completed"];

describe.each(jobStores)("timers of deployments in $name", (store) => {
  let address: JobsAddress;
  beforeAll(() => store.open());
  afterAll(() => store.close());
  beforeEach(async () => {
    address = await store.fresh();
  });

  it("become one job however often and by however many control planes they are set, also before the queue is reachable", async () => {
    const [one, other] = [start(address), start(address)];
    const far = due("far", 600_000);
    one.add([far, due("one's own", 600_000)]);
    other.add([far, due("other's own", 600_000)]);
    await one.counts("delayed", 3);
    one.add([far]);
    other.add([far, due("another", 600_000)]);
    await other.counts("delayed", 4);
  });

  it("wake one of two control planes when it is time, and nothing of them is left", async () => {
    const [one, other] = [start(address), start(address)];
    await Promise.all([one.counts("active", 0), other.counts("active", 0)]);
    const timer = due("later", 700);
    one.add([timer]);
    await vi.waitFor(() => expect([...one.ids(), ...other.ids()]).toEqual(["later"]), patient);
    expect([...one.woken, ...other.woken][0]?.atMs).toBeGreaterThanOrEqual(timer.atMs);
    for (const state of everyState) await one.counts(state, 0);
    expect([...one.ids(), ...other.ids()]).toEqual(["later"]);
  });

  it("retry failed work after growing pauses", async () => {
    const one = start(address, { stubborn: 3 });
    await one.counts("active", 0);
    one.add([{ ...due("stubborn"), kind: "retry" }]);
    await vi.waitFor(() => expect(one.ids()).toHaveLength(4), patient);
    const [first = 0, , , last = 0] = one.woken.map(({ atMs }) => atMs);
    // Half of 250, 500 and 1,000 ms at least: the other half is chance.
    expect(last - first).toBeGreaterThanOrEqual(870);
    for (const state of everyState) await one.counts(state, 0);
  });

  // A worker of a Redis that is away is given up after five seconds, as every queue's (batch-queue.test.ts).
  if (store.name === "PostgreSQL")
    it("drop silently while the server is unavailable, and stop in bounded time", async () => {
      const one = start(address);
      await one.counts("active", 0);
      await store.kill();
      one.add([due("lost")]);
      const beganMs = performance.now();
      await one.stop();
      expect(performance.now() - beganMs).toBeLessThan(20_000);
      one.add([due("too late")]);
      expect(one.ids()).toEqual([]);
    });
});
