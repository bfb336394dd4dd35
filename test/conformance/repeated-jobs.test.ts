// The repeated jobs over BullMQ's two stores, each on a real server that is killed and wiped.
import pino from "pino";
import { Registry } from "prom-client";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import type { JobsAddress } from "../../control-plane/jobs/backend.ts";
import { createRepeatedJobs, type RepeatedJob } from "../../control-plane/jobs/repeated-jobs.ts";
import { jobStores, linkTo } from "../fakes/job-stores.ts";
import { withoutRedis } from "../fakes/redis.ts";

const patient = { timeout: 30_000, interval: 50 };
/** What BullMQ had given out when its store went is given out again once its lock has run out and somebody has looked for such. */
const unaided = { timeout: 120_000, interval: 50 };
const log = pino({ level: "silent" });
function start(address: JobsAddress, jobs: readonly RepeatedJob[], answerMs = 5_000) {
  const registry = new Registry();
  const running = createRepeatedJobs({
    address,
    jobs,
    log,
    registry,
    keepFinishedMs: 60_000,
    pollEveryMs: 300,
    answerMs,
  });
  running.start();
  onTestFinished(() => running.stop());
  return { registry, stop: () => running.stop() };
}

withoutRedis("repeated jobs kept in Redis");

describe.each(jobStores)("repeated jobs in $name", (store) => {
  let address: JobsAddress;
  beforeAll(() => store.open());
  afterAll(() => store.close());
  beforeEach(async () => {
    address = await store.fresh();
  });

  it("run repeatedly, each time on one of two control planes", async () => {
    const turns: number[] = [];
    const job = (who: number): RepeatedJob => ({ name: "count", everyMs: 400, run: async () => void turns.push(who) });
    const beganMs = performance.now();
    start(address, [job(1)]);
    start(address, [job(2)]);
    await vi.waitFor(() => expect(turns.length).toBeGreaterThanOrEqual(5), patient);
    const possible = (performance.now() - beganMs) / 400;
    // Twice as many if both did every turn.
    expect(turns.length).toBeLessThanOrEqual(possible + 2);
  });

  it("leave no rows of runs that succeeded", async () => {
    let turns = 0;
    const count = () => {
      turns += 1;
    };
    const { registry } = start(address, [{ name: "count", everyMs: 100, run: async () => count() }]);
    await vi.waitFor(() => expect(turns).toBeGreaterThan(5), patient);
    const completed = async () =>
      (await registry.getSingleMetric("bullmq_job_count")?.get())?.values.find(
        ({ labels }) => labels["state"] === "completed",
      )?.value;
    await vi.waitFor(async () => expect(await completed()).toBeDefined(), patient);
    expect(await completed()).toBeLessThanOrEqual(1);
  });

  it("continue after the server was killed, and are scheduled again when the queue was wiped", async () => {
    let turns = 0;
    const count = () => {
      turns += 1;
    };
    start(address, [{ name: "count", everyMs: 200, run: async () => count() }]);
    await vi.waitFor(() => expect(turns).toBeGreaterThan(1), patient);
    await store.kill();
    await store.restart();
    const before = turns;
    await vi.waitFor(() => expect(turns).toBeGreaterThan(before + 1), unaided);

    await store.wipe();
    const wiped = turns;
    await vi.waitFor(() => expect(turns).toBeGreaterThan(wiped + 1), unaided);

    await store.unmake();
    const unmade = turns;
    await vi.waitFor(() => expect(turns).toBeGreaterThan(unmade + 1), unaided);
  }, 400_000);

  it("count failures and retry them at their next turn, beside the others", async () => {
    let turns = 0;
    const count = () => {
      turns += 1;
    };
    const { registry } = start(address, [
      {
        name: "fails",
        everyMs: 200,
        run: async () => {
          throw new Error("as the test wants");
        },
      },
      { name: "works", everyMs: 200, run: async () => count() },
    ]);
    await vi.waitFor(async () => {
      expect(turns).toBeGreaterThan(1);
      const { values } = await registry.getSingleMetricAsString("stoker_job_runs_total").then((text) => ({
        values: [...text.matchAll(/job="fails",outcome="failed"\} (\d+)/g)].map(([, n]) => Number(n)),
      }));
      expect(values[0]).toBeGreaterThan(1);
    }, patient);
  });

  it("run a job once at a time on each control plane, and others beside a long one", async () => {
    const long = Promise.withResolvers<void>();
    let [begun, turns] = [0, 0];
    start(address, [
      {
        name: "long",
        everyMs: 200,
        run: () => {
          begun += 1;
          return long.promise;
        },
      },
      {
        name: "short",
        everyMs: 200,
        run: async () => {
          turns += 1;
        },
      },
    ]);
    try {
      await vi.waitFor(() => expect(begun).toBeGreaterThan(0), patient);
      const before = turns;
      await vi.waitFor(() => expect(turns).toBeGreaterThan(before + 5), patient);
      expect(begun).toBe(1);
    } finally {
      long.resolve();
    }
  });

  // The clients of a Redis that vanishes like that find it out when TCP does, which no test can wait for.
  if (store.name === "PostgreSQL")
    it("continue after the server vanished from connections that stay open", async () => {
      let turns = 0;
      const count = () => {
        turns += 1;
      };
      const link = await linkTo(address);
      start(link.address, [{ name: "count", everyMs: 200, run: async () => count() }], 1_000);
      await vi.waitFor(() => expect(turns).toBeGreaterThan(1), patient);
      link.lose();
      const before = turns;
      await vi.waitFor(() => expect(turns).toBeGreaterThan(before + 2), unaided);
    }, 200_000);

  it("stop in bounded time, also when the server is unavailable", async () => {
    let turns = 0;
    const count = () => {
      turns += 1;
    };
    const { stop } = start(address, [{ name: "count", everyMs: 200, run: async () => count() }]);
    await vi.waitFor(() => expect(turns).toBeGreaterThan(0), patient);
    await store.kill();
    const beganMs = performance.now();
    await stop();
    expect(performance.now() - beganMs).toBeLessThan(20_000);
    await store.restart();
  });
});
