// The queue of batches over BullMQ's two stores, each on a real server that is killed and wiped.
import { MIGRATION_ADVISORY_LOCK_KEY } from "bullmq";
import pg from "pg";
import pino from "pino";
import { Registry } from "prom-client";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import type { BatchId } from "../../control-plane/batches/batch.ts";
import type { DueBatch } from "../../control-plane/batches/queue.ts";
import type { JobsAddress } from "../../control-plane/jobs/backend.ts";
import { createBatchQueue } from "../../control-plane/jobs/batch-queue.ts";
import { query } from "../e2e/spine/database.ts";
import { jobStores, linkTo } from "../fakes/job-stores.ts";
import { withoutRedis } from "../fakes/redis.ts";

const patient = { timeout: 30_000, interval: 50 };
/** What BullMQ had given out when its store went is given out again once its lock has run out and somebody has looked for such. */
const unaided = { timeout: 120_000, interval: 50 };
const log = pino({ level: "silent" });

withoutRedis("the queue of batches kept in Redis");

const due = (id: string, rank = 1, run = 0): DueBatch => ({ id: id as BatchId, run, rank });

/** One control plane's queue, that has been reached. Each batch runs until the test lets it end. */
async function start(address: JobsAddress, maxBatches: number, answerMs?: number) {
  const registry = new Registry();
  const bounds = { pollEveryMs: 300, ...(answerMs === undefined ? {} : { answerMs }) };
  const queue = createBatchQueue({ ...bounds, address, maxBatches, log, registry });
  const begun: string[] = [];
  const running = new Map<string, () => void>();
  let reached = 0;
  let atOnce = 0;
  let isOver = false;
  queue.start(
    async (id) => {
      begun.push(id);
      if (isOver) return;
      const ended = new Promise<void>((end) => running.set(id, end));
      atOnce = Math.max(atOnce, running.size);
      await ended;
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
    isOver = true;
    endAll();
    await queue.stop();
  });
  await vi.waitFor(() => expect(reached).toBeGreaterThan(0), patient);
  const until = (...ids: string[]) => vi.waitFor(() => expect(begun).toEqual(ids), patient);
  return { queue, registry, begun, until, end: (id: string) => running.get(id)?.(), endAll, atOnce: () => atOnce };
}

/** As the runner's looks do, until it is there. */
const addAgain = (one: Awaited<ReturnType<typeof start>>, batch: DueBatch) =>
  vi.waitFor(async () => {
    await one.queue.add([batch]);
    expect(one.begun).toContain(batch.id);
  }, unaided);

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

  it("takes up by the rank it has now a batch that was queued when others of its account came before it", async () => {
    const one = await start(address, 1);
    await one.queue.add([due("first")]);
    await one.until("first");
    await one.queue.add([due("second", 2), due("other")]);
    await one.queue.add([due("second", 1), due("other")]);
    await one.queue.add([due("second", 1), due("other"), due("yet another")]);
    one.end("first");
    await one.until("first", "other");
    one.end("other");
    await one.until("first", "other", "second");
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
    const one = await start(address, 2, 1_000);
    const counted = () => one.registry.getSingleMetricAsString("bullmq_job_count");
    await one.queue.add([due("long")]);
    await one.until("long");
    await store.wipe();
    await addAgain(one, due("wiped"));
    one.end("wiped");

    await vi.waitFor(async () => expect(await counted()).toContain('queue="stoker-batches"'), patient);
    await store.kill();
    await vi.waitFor(async () => expect(await counted()).not.toContain("stoker-batches"), patient);
    await store.restart();
    await addAgain(one, due("killed"));
    one.end("killed");

    await store.unmake();
    await addAgain(one, due("unmade"));
    await one.queue.add([due("beyond")]);
    one.end("unmade");
    await vi.waitFor(() => expect(one.begun).toContain("beyond"), unaided);
    expect(one.atOnce()).toBe(2);
    expect(one.begun.filter((id) => id === "long")).toHaveLength(1);
    one.endAll();
  }, 400_000);

  // The clients of a Redis that vanishes like that find it out when TCP does, which no test can wait for.
  if (store.name === "PostgreSQL")
    it("gives out batches again after the server vanished without a word from connections that stay open", async () => {
      const link = await linkTo(address);
      const one = await start(link.address, 1, 1_000);
      await vi.waitFor(() => one.queue.add([due("a")]), patient);
      await one.until("a");
      link.lose();
      await vi.waitFor(() => one.queue.add([due("b")]), patient);
      one.end("a");
      await vi.waitFor(() => expect(one.begun).toContain("b"), unaided);
    }, 200_000);

  if (store.name === "PostgreSQL")
    it("leaves nothing behind when it is stopped while it waits for another control plane's change of the tables", async () => {
      const { databaseUrl } = address as { databaseUrl: string };
      const other = new pg.Client(databaseUrl);
      await other.connect();
      await other.query("select pg_advisory_lock($1, hashtext('stoker_jobs'))", [MIGRATION_ADVISORY_LOCK_KEY]);
      const queue = createBatchQueue({ address, maxBatches: 1, log, registry: new Registry() });
      queue.start(
        async () => {},
        () => {},
      );
      await vi.waitFor(
        async () => expect(await query(databaseUrl, "select 1 from pg_locks where not granted")).toHaveLength(1),
        patient,
      );
      await queue.stop();
      await other.end();
      const rest = "select query from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
      await vi.waitFor(async () => expect(await query(databaseUrl, rest)).toEqual([]), patient);
      expect(await query(databaseUrl, "select 1 from pg_namespace where nspname = 'stoker_jobs'")).toEqual([]);
    });

  it("stops in bounded time, also when the server is unavailable while a batch runs", async () => {
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
