// The queue of batches over BullMQ's two stores, each on a real server that is killed and wiped.
import pino from "pino";
import { Registry } from "prom-client";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import type { BatchId } from "../../control-plane/batches/batch.ts";
import type { DueBatch } from "../../control-plane/batches/queue.ts";
import type { JobsAddress } from "../../control-plane/jobs/backend.ts";
import { createBatchQueue } from "../../control-plane/jobs/batch-queue.ts";
import { jobStores } from "../fakes/job-stores.ts";
import { withoutRedis } from "../fakes/redis.ts";

const patient = { timeout: 30_000, interval: 50 };
const log = pino({ level: "silent" });

withoutRedis("the queue of batches kept in Redis");

const due = (id: string, rank = 1, run = 0): DueBatch => ({ id: id as BatchId, run, rank });

/** One control plane's queue, that has been reached. Each batch runs until the test lets it end. */
async function start(address: JobsAddress, mostBatches: number) {
  const registry = new Registry();
  const queue = createBatchQueue({ address, mostBatches, lookEveryMs: 300, log, registry });
  const begun: string[] = [];
  const running = new Map<string, () => void>();
  let reached = 0;
  queue.start(
    async (id) => {
      begun.push(id);
      await new Promise<void>((end) => running.set(id, end));
      running.delete(id);
    },
    () => {
      reached += 1;
    },
  );
  const endAll = () => {
    for (const end of running.values()) end();
  };
  onTestFinished(async () => {
    endAll();
    await queue.stop();
  });
  await vi.waitFor(() => expect(reached).toBeGreaterThan(0), patient);
  const until = (...ids: string[]) => vi.waitFor(() => expect(begun).toEqual(ids), patient);
  return { queue, registry, begun, until, end: (id: string) => running.get(id)?.(), endAll };
}

/** As the runner's looks do, until it is there. */
const addAgain = (one: Awaited<ReturnType<typeof start>>, batch: DueBatch) =>
  vi.waitFor(async () => {
    await one.queue.add([batch]);
    expect(one.begun).toContain(batch.id);
  }, patient);

describe.each(jobStores)("the queue of batches in $name", (store) => {
  let address: JobsAddress;
  beforeAll(() => store.open());
  afterAll(() => store.close());
  beforeEach(async () => {
    address = await store.fresh();
  });

  it("works a run once, however often it was added, and the lowest rank first", async () => {
    const one = await start(address, 1);
    await one.queue.add([due("a")]);
    await one.until("a");
    await one.queue.add([due("a"), due("late", 3)]);
    await one.queue.add([due("a"), due("b", 1), due("c", 2), due("late", 3)]);
    for (const id of ["a", "b", "c"]) {
      await vi.waitFor(() => expect(one.begun.at(-1)).toBe(id), patient);
      one.end(id);
    }
    await one.until("a", "b", "c", "late");
    // The next run of a batch has a job of its own, beside one that is left of its last run.
    await one.queue.add([due("late", 1, 1)]);
    one.end("late");
    await one.until("a", "b", "c", "late", "late");
  });

  it("gives each job to one of two control planes, so many at a time, and counts them", async () => {
    const one = await start(address, 2);
    const other = await start(address, 2);
    const ids = ["a", "b", "c", "d", "e"];
    await one.queue.add(ids.map((id) => due(id)));
    await vi.waitFor(() => expect([one.begun.length, other.begun.length]).toEqual([2, 2]), patient);
    await vi.waitFor(async () => {
      const text = await other.registry.getSingleMetricAsString("bullmq_job_count");
      expect(text).toContain('bullmq_job_count{queue="stoker-batches",state="active"} 4');
      expect(text).toMatch(/state="(waiting|prioritized)"\} 1/);
    }, patient);
    one.endAll();
    await vi.waitFor(() => expect([...one.begun, ...other.begun].toSorted()).toEqual(ids), patient);
  });

  it("goes on after its server was killed or wiped, and what runs is not disturbed", async () => {
    const one = await start(address, 2);
    await one.queue.add([due("long")]);
    await one.until("long");
    await store.wipe();
    await addAgain(one, due("wiped"));
    one.end("wiped");

    await store.kill();
    await store.restart();
    await addAgain(one, due("killed"));
    one.end("killed");

    await store.unmake();
    await addAgain(one, due("unmade"));
    expect(one.begun.filter((id) => id === "long")).toHaveLength(1);
    one.endAll();
  });

  it("stops in bounded time, also when the server is away while a batch runs", async () => {
    const one = await start(address, 1);
    await one.queue.add([due("a")]);
    await one.until("a");
    await store.kill();
    const beganMs = performance.now();
    await one.queue.stop();
    expect(performance.now() - beganMs).toBeLessThan(20_000);
    await store.restart();
  });
});
