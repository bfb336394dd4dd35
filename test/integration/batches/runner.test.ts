// Batches in the queue, with two control planes on one PostgreSQL and fake requests.
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { Registry } from "prom-client";
import { afterAll, beforeAll, beforeEach, expect, it, onTestFinished, vi } from "vitest";
import type { Caller } from "../../../control-plane/accounts/caller.ts";
import type { BatchId } from "../../../control-plane/batches/batch.ts";
import { createBatches } from "../../../control-plane/batches/batches.ts";
import { Pace } from "../../../control-plane/batches/pace.ts";
import { createBatchRunner } from "../../../control-plane/batches/runner.ts";
import type { BatchStore } from "../../../control-plane/batches/store.ts";
import type { FileId } from "../../../control-plane/files/store.ts";
import { createBatchQueue } from "../../../control-plane/jobs/batch-queue.ts";
import { createBatchStore } from "../../../control-plane/store/work/batch-store.ts";
import { query } from "../../e2e/spine/database.ts";
import { insist } from "../../fakes/job-stores.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { log, openWorld, patience } from "../billing/world.ts";
import { models, requests, routes } from "./batch-world.ts";

let postgres: TestDatabases;
let world: Awaited<ReturnType<typeof openWorld>>;
let store: BatchStore;
let caller: Caller;
/** Request ids of the lines that have begun; they end when the gate is open. */
let begun: string[];
let gate: PromiseWithResolvers<void>;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres?.stop());
beforeEach(async () => {
  world = await openWorld(postgres);
  store = createBatchStore(world.db);
  const account = await world.account(0n);
  caller = { account, key: await world.keyOf(account) } as Caller;
  begun = [];
  gate = Promise.withResolvers();
  await query(
    world.url,
    `insert into file (file_id, account_id, purpose, blob_key, is_ready, expires_at)
     values ('input', $1, 'batch', 'k', true, now() + interval '1 day')`,
    [account],
  );
});

const lines = 3;
const input = requests(lines).join("\n");

/** A control plane. `asked`: the batches that its jobs were about. */
function controlPlane(maxBatches: number) {
  const asked: string[] = [];
  const address = { databaseUrl: world.url };
  const queue = createBatchQueue({ address, maxBatches, pollEveryMs: 300, log, registry: new Registry() });
  const runner = createBatchRunner({
    queue,
    store: {
      ...store,
      claim(id, lockMs) {
        asked.push(id);
        return store.claim(id, lockMs);
      },
    },
    files: {
      input: async () => Readable.from([Buffer.from(input)]),
      write: async (_, body) => ({ id: "output" as FileId, bytes: (await buffer(body)).length }),
    },
    models,
    pace: new Pace({ routes, waiting: () => 0, maxPerModel: 32, hasCapacity: () => true }),
    callerOf: async () => caller,
    runLine: () => async (work) => {
      begun.push(work.requestId);
      await gate.promise;
      return { kind: "answered", status: 200, body: "{}", tokens: undefined };
    },
    maxConcurrent: 32,
    maxOutputBytes: 64e6,
    lockMs: 60_000,
    firstPauseMs: 0,
    pollEveryMs: 200,
    nowMs: Date.now,
    log,
  });
  runner.start();
  onTestFinished(() => {
    gate.resolve();
    return runner.stop();
  });
  return { queue, asked };
}

async function create(): Promise<BatchId> {
  const request = { endpoint: "/v1/completions", inputFile: "input", metadata: null } as const;
  const verbs = createBatches({ store, created: () => {} });
  return (await verbs.create(caller, { ...request, outputExpiresAfterMs: undefined })).id;
}

const completed = (...ids: BatchId[]) =>
  vi.waitFor(async () => {
    for (const id of ids)
      expect(await store.find(caller.account, id)).toMatchObject({ status: "completed", counts: { completed: lines } });
  }, patience);

const linesOf = (...ids: BatchId[]) => ids.flatMap((id) => [1, 2, 3].map((line) => `${id}_${line}`)).toSorted();

it("a batch with two jobs at two control planes is run by one of them, and no line twice", async () => {
  const one = controlPlane(1);
  const other = controlPlane(1);
  const id = await create();
  await vi.waitFor(() => expect(begun).toHaveLength(lines), patience);
  // As a queue does that takes the first job's worker for dead.
  await vi.waitFor(async () => {
    await one.queue.add([{ id, run: 99, rank: 1 }]);
    expect(one.asked.length + other.asked.length).toBeGreaterThan(1);
  }, patience);
  gate.resolve();
  await completed(id);
  expect(begun.toSorted()).toEqual(linesOf(id));
});

it("jobs lost with the queue are created again from the table, also while a batch runs", async () => {
  const { asked } = controlPlane(1);
  const first = await create();
  await vi.waitFor(() => expect(begun).toHaveLength(lines), patience);
  const second = await create();
  const hasJob = () =>
    vi.waitFor(async () => {
      const jobs = await query<{ id: string }>(world.url, "select id from stoker_jobs.job where state = 'waiting'");
      expect(jobs.map((job) => job.id)).toEqual([`${second}-0-2`]);
    }, patience);
  await hasJob();
  await insist(world.url, "delete from stoker_jobs.job");
  await hasJob();
  gate.resolve();
  await completed(first, second);
  expect(begun.toSorted()).toEqual(linesOf(first, second));
  expect(new Set(asked)).toEqual(new Set([first, second]));
});
