// Runs of batches on a real PostgreSQL and a real folder; the requests of their lines are the tests' own.
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import type { Caller } from "../../../control-plane/accounts/caller.ts";
import type { BatchId } from "../../../control-plane/batches/batch.ts";
import { createBatches } from "../../../control-plane/batches/batches.ts";
import type { LineAnswer, LineWork } from "../../../control-plane/batches/line.ts";
import { Pace } from "../../../control-plane/batches/pace.ts";
import { type RunDeps, runBatch } from "../../../control-plane/batches/run-batch.ts";
import type { BatchStore } from "../../../control-plane/batches/store.ts";
import { createFolderBlobs } from "../../../control-plane/blobs/folder-blobs.ts";
import type { ServedModel } from "../../../control-plane/catalog/served-model.ts";
import { FileNotFound, FileStoreAway } from "../../../control-plane/files/errors.ts";
import { createFiles, type Files } from "../../../control-plane/files/files.ts";
import { createBatchStore } from "../../../control-plane/store/batch-store.ts";
import { createFileStore } from "../../../control-plane/store/file-store.ts";
import type { AccountId, DeploymentId } from "../../../proto/ids.ts";
import { startPostgres, type TestPostgres } from "../../fakes/postgres.ts";
import { log, openWorld } from "../billing/world.ts";

let postgres: TestPostgres;
let world: Awaited<ReturnType<typeof openWorld>>;
let folder: string;
let files: Files;
let store: BatchStore;
let caller: Caller;
beforeAll(async () => {
  postgres = await startPostgres();
});
beforeEach(async () => {
  world = await openWorld(postgres);
  folder = mkdtempSync(join(tmpdir(), "stoker-batches-"));
  const limits = { bytes: 64e6, batchBytes: 64e6, quotaBytes: 64e6 };
  files = createFiles({ store: createFileStore(world.db), blobs: createFolderBlobs(folder), limits });
  store = createBatchStore(world.db);
  const account = await world.account(0n);
  caller = { account, key: await world.keyOf(account) } as Caller;
});
afterEach(() => rmSync(folder, { recursive: true }));
afterAll(() => postgres?.stop());

const { signal: never } = new AbortController();
const deployId = "deployment" as DeploymentId;
const model = { deployId } as ServedModel;
const resolve = (name: string) => (name === "acme/model" ? model : undefined);
const models: RunDeps["models"] = { resolve, find: resolve, list: () => [model] };
const route = { deployId, maxBatchSize: 64, inFlight: 0 };
const routes = { ready: () => [route] } as unknown as ConstructorParameters<typeof Pace>[0]["routes"];

const answer = (status = 200): LineAnswer => ({ kind: "answered", status, body: "{}", tokens: undefined });
const noFunds = ({ attempts }: LineWork): LineAnswer => ({
  kind: "again",
  why: "funds",
  afterMs: 20,
  attempts,
  otherwise: { status: 402, body: "{}" },
});
const numberOf = ({ requestId }: LineWork) => Number(requestId.split("_").at(-1));

const request = (n: number, change: object = {}) =>
  JSON.stringify({
    custom_id: `r${n}`,
    method: "POST",
    url: "/v1/completions",
    body: { model: "acme/model", prompt: "hello" },
    ...change,
  });
const requests = (count: number) => Array.from({ length: count }, (_, n) => request(n + 1));

async function create(lines: readonly string[], metadata: Record<string, string> | null = null) {
  const staged = await files.stage(caller.account, Readable.from([lines.join("\n")]), never);
  const { id: inputFile } = await staged.keep({ filename: "a.jsonl", expiresAfterMs: undefined });
  const verbs = createBatches({ store, created: () => {} });
  return verbs.create(caller, { endpoint: "/v1/completions", inputFile, metadata, outputExpiresAfterMs: undefined });
}

/** The lock it takes is over at once. */
async function claimNext(lockMs = 0) {
  const [next] = await store.due(1);
  return next && store.claim(next.id, lockMs);
}

/** Takes up the only batch there is and runs it. */
async function runOnce(runLine: RunDeps["runLine"], change: Partial<RunDeps> = {}, stopping = never): Promise<void> {
  const deps: RunDeps = {
    store,
    files,
    models,
    runLine,
    pace: new Pace({ routes, waiting: () => 0, mostPerModel: 32, hasRoom: () => true }),
    callerOf: async () => caller,
    mostAtOnce: 32,
    lockMs: 60_000,
    firstPauseMs: 0,
    nowMs: Date.now,
    log,
    ...change,
  };
  const run = await claimNext();
  if (!run) throw new Error("no batch can be taken up");
  await runBatch(deps, run, stopping);
}

/** Control planes that took it up and were never heard of again. */
async function takenUpAndLost(times: number): Promise<void> {
  for (let n = 0; n < times; n++) await claimNext();
}

const state = async (id: BatchId) => {
  const batch = await store.find(caller.account, id);
  if (!batch) throw new Error("the batch is gone");
  return batch;
};
const idsOf = async (file: string | null) =>
  file === null
    ? []
    : (await text((await files.content(caller.account, file)).body))
        .trimEnd()
        .split("\n")
        .map((line) => (JSON.parse(line) as { custom_id: string }).custom_id);

/** Its first `done` lines have a result, then its control plane broke down. */
async function brokenOffAfter(lines: readonly string[], done: number): Promise<BatchId> {
  const { id } = await create(lines);
  const runLine = async (work: LineWork) => {
    if (numberOf(work) > done) throw new Error("a control plane that breaks down");
    return answer();
  };
  await expect(runOnce(runLine, { mostAtOnce: 1 })).rejects.toThrow("breaks down");
  expect((await state(id)).counts.completed).toBe(done);
  return id;
}
const expireInput = () =>
  world.db
    .updateTable("file")
    .set({ expires_at: new Date(0) })
    .where("purpose", "=", "batch")
    .execute();

it("a batch taken up after its input has expired goes on with it, and its lines that are done are not run again", async () => {
  const id = await brokenOffAfter(requests(4), 2);
  await expireInput();
  await expect(files.get(caller.account, (await state(id)).inputFile)).rejects.toThrow(FileNotFound);
  expect(await files.sweep(never)).toBe(0);
  const again: number[] = [];
  await runOnce(async (work) => {
    again.push(numberOf(work));
    return answer();
  });
  expect(again.toSorted()).toEqual([3, 4]);
  const ended = await state(id);
  expect(ended).toMatchObject({ status: "completed", errors: null, counts: { completed: 4, failed: 0 } });
  expect(await idsOf(ended.outputFile)).toEqual(["r1", "r2", "r3", "r4"]);
});

it("a cancelled batch ends although its input was removed", async () => {
  const id = await brokenOffAfter(requests(3), 1);
  await world.db.updateTable("file").set({ removed_at: new Date() }).execute();
  await store.cancel(caller.account, id);
  await runOnce(async () => answer(500));
  const ended = await state(id);
  expect(ended.status).toBe("cancelled");
  expect(await idsOf(ended.outputFile)).toEqual(["r1"]);
  expect(await idsOf(ended.errorFile)).toEqual(["r2", "r3"]);
});

it.each([
  { done: 2, status: "completed", output: ["r1", "r2"] },
  { done: 0, status: "failed", output: [] },
])(
  "where the bytes of the input are lost after $done results the batch is $status",
  async ({ done, status, output }) => {
    const id = await brokenOffAfter(requests(4), done);
    for (const name of readdirSync(join(folder, "files"))) rmSync(join(folder, "files", name));
    await runOnce(async () => answer());
    const ended = await state(id);
    expect(ended).toMatchObject({ status, errors: [{ code: "input_file_not_found" }] });
    expect(await idsOf(ended.outputFile)).toEqual(output);
  },
);

it("an input that cannot be read again and again ends the batch with the results there are", async () => {
  const id = await brokenOffAfter(requests(4), 2);
  await takenUpAndLost(97);
  const away: Partial<RunDeps> = {
    files: { ...files, input: () => Promise.reject(new FileStoreAway(new Error("x"))) },
  };
  // The run that broke off added results; 3 more make 100 that did not.
  for (let n = 0; n < 3; n++) {
    await expect(runOnce(async () => answer(), away)).rejects.toThrow(FileStoreAway);
    expect((await state(id)).status).toBe("in_progress");
  }
  await runOnce(async () => answer(), away);
  const ended = await state(id);
  expect(ended).toMatchObject({ status: "completed", errors: [{ code: "internal_error" }], counts: { completed: 2 } });
  expect(await idsOf(ended.outputFile)).toEqual(["r1", "r2"]);
});

const unwritable = (): Partial<RunDeps> => ({
  files: { ...files, write: () => Promise.reject(new FileStoreAway(new Error("x"))) },
});

it("results that cannot be written for however long are files when they can", async () => {
  const { id } = await create(requests(2));
  await expect(runOnce(async () => answer(), unwritable())).rejects.toThrow(FileStoreAway);
  await takenUpAndLost(120);
  await expect(runOnce(async () => answer(), unwritable())).rejects.toThrow(FileStoreAway);
  expect(await state(id)).toMatchObject({ status: "finalizing", errors: [{ code: "output_waits" }] });
  await runOnce(async () => answer());
  const ended = await state(id);
  expect(ended).toMatchObject({ status: "completed", errors: null });
  expect(await idsOf(ended.outputFile)).toEqual(["r1", "r2"]);
});

it("a batch whose files cannot be written is not taken up again before its pause is over, which doubles", async () => {
  const { id } = await create(requests(1));
  const pauseMs = async () => {
    const { rows } = await world.pool.query("select extract(epoch from locked_until - now()) * 1000 as ms from batch");
    return Number(rows[0].ms);
  };
  // The first run adds results, and counts as none that did not.
  for (const ms of [60_000, 60_000, 120_000, 240_000]) {
    const change = { ...unwritable(), firstPauseMs: 60_000 };
    await expect(runOnce(async () => answer(), change)).rejects.toThrow(FileStoreAway);
    expect(await store.due(1)).toEqual([]);
    expect(await store.claim(id, 0)).toBeUndefined();
    const late = ms - (await pauseMs());
    expect(late >= 0 && late < 30_000).toBe(true);
    await world.pool.query("update batch set locked_until = now()");
  }
  const change = { ...unwritable(), firstPauseMs: 36_000_000 };
  await expect(runOnce(async () => answer(), change)).rejects.toThrow(FileStoreAway);
  expect(await pauseMs()).toBeLessThanOrEqual(900_000);
  expect((await state(id)).errors).toHaveLength(1);
});

it("files that cannot be written for a week end the batch, which says why, and its results stay", async () => {
  const { id } = await create(requests(1));
  await expect(runOnce(async () => answer(), unwritable())).rejects.toThrow(FileStoreAway);
  await world.pool.query("update batch set finalizing_at = now() - interval '169 hours'");
  await runOnce(async () => answer(), unwritable());
  expect(await state(id)).toMatchObject({
    status: "failed",
    errors: [{ code: "output_not_written" }],
    outputFile: null,
  });
  const { rows } = await world.pool.query("select count(*)::integer as kept from batch_result where batch_id = $1", [
    id,
  ]);
  expect(rows).toEqual([{ kept: 1 }]);
});

it("a run that its control plane gave back, or that added a result, is not one that added none", async () => {
  const id = await brokenOffAfter(requests(3), 1);
  for (let n = 0; n < 3; n++) await runOnce(async () => answer(), {}, AbortSignal.abort());
  expect((await state(id)).counts.completed).toBe(1);
  expect(await claimNext()).toMatchObject({ run: 5, barren: 1 });
});

it("two lines without funds end with 402", async () => {
  const { id } = await create(requests(2));
  const { promise: bothAtWork, resolve: both } = Promise.withResolvers<void>();
  let begun = 0;
  await runOnce(async (work) => {
    begun += 1;
    if (begun === 2) both();
    await bothAtWork;
    return noFunds(work);
  });
  const ended = await state(id);
  expect(ended).toMatchObject({ status: "completed", counts: { completed: 0, failed: 2 } });
  expect(await idsOf(ended.errorFile)).toEqual(["r1", "r2"]);
});

it("a line without funds waits for what a running one holds", async () => {
  const { id } = await create(requests(2));
  const { promise: hasBegun, resolve: begin } = Promise.withResolvers<void>();
  const { promise: wasRefused, resolve: refuse } = Promise.withResolvers<void>();
  let isHeld = true;
  await runOnce(async (work) => {
    if (numberOf(work) === 1) {
      begin();
      await wasRefused;
      isHeld = false;
      return answer();
    }
    await hasBegun;
    if (!isHeld) return answer();
    refuse();
    return noFunds(work);
  });
  expect(await state(id)).toMatchObject({ status: "completed", counts: { completed: 2, failed: 0 } });
});

it("where the input breaks off, the lines that run end and their results count before the run does", async () => {
  const { id } = await create(requests(2));
  const { promise: hasBegun, resolve: begin } = Promise.withResolvers<void>();
  const { promise: isBroken, resolve: broken } = Promise.withResolvers<void>();
  const input = async () => {
    const body = Readable.from(
      (async function* () {
        yield Buffer.from(`${request(1)}\n`);
        await hasBegun;
        throw new Error("the connection was lost");
      })(),
    );
    body.once("close", broken);
    return body;
  };
  let ended = 0;
  const runLine = async () => {
    begin();
    await isBroken;
    // Some way to the end yet.
    for (let n = 0; n < 5; n++) await state(id);
    ended += 1;
    return answer();
  };
  // Validated as it is, broken off while its lines run.
  let reads = 0;
  const breaking = (account: AccountId, file: string) => {
    reads += 1;
    return reads === 1 ? files.input(account, file) : input();
  };
  await expect(runOnce(runLine, { files: { ...files, input: breaking } })).rejects.toThrow("the connection was lost");
  expect(ended).toBe(1);
  expect((await state(id)).counts).toMatchObject({ total: 2, completed: 1 });
  await runOnce(async () => answer());
  expect(await state(id)).toMatchObject({ status: "completed", counts: { completed: 2 } });
});

it("texts that PostgreSQL cannot keep are told without them", async () => {
  const strange = "a\0b\ud800";
  const lines = [
    request(1, { custom_id: strange }),
    request(2, { custom_id: strange }),
    request(3, { url: strange }),
    request(4, { body: { model: strange } }),
  ];
  const { id, metadata } = await create(lines, { "k\ud800": "v\udfff" });
  expect(metadata).toEqual({ "k\ufffd": "v\ufffd" });
  await runOnce(async () => answer());
  const { status, errors } = await state(id);
  expect(status).toBe("failed");
  expect(errors?.map(({ code, line }) => [code, line])).toEqual([
    ["duplicate_custom_id", 2],
    ["mismatched_url", 3],
    ["mismatched_model", 4],
  ]);
  expect(errors?.every(({ message }) => message.includes("ab\ufffd"))).toBe(true);
});

it("a result that the database refuses ends the run with its reason", async () => {
  await create(requests(1));
  const refused = async () => ({ ...answer(), body: '"\0"' }) as LineAnswer;
  await expect(runOnce(refused)).rejects.toThrow(/invalid byte sequence/);
});

it("a run that cannot renew its lock for as long as it lives breaks off", async () => {
  const { id } = await create(requests(1));
  const renew = () => Promise.reject(new Error("the database is away"));
  await runOnce(
    async (_, signal) => {
      if (!signal.aborted) await once(signal, "abort");
      return { kind: "stopped" };
    },
    { store: { ...store, renew }, lockMs: 400 },
  );
  expect(await state(id)).toMatchObject({ status: "in_progress", counts: { completed: 0 } });
});

it("long lines run by themselves", async () => {
  const prompt = "x".repeat(9 * 1024 * 1024);
  const { id } = await create([1, 2].map((n) => request(n, { body: { model: "acme/model", prompt } })));
  let atOnce = 0;
  let most = 0;
  await runOnce(async () => {
    atOnce += 1;
    most = Math.max(most, atOnce);
    // Time for the next one to be read and begun, where it may.
    for (let n = 0; n < 20; n++) await state(id);
    atOnce -= 1;
    return answer();
  });
  expect(most).toBe(1);
  expect((await state(id)).counts.completed).toBe(2);
});

it("results are read in pages of so many bytes, and none is left out", async () => {
  const { id } = await create(requests(1));
  const run = await claimNext(60_000);
  if (!run) throw new Error("it was not taken up");
  const body = "x".repeat(1000);
  const result = (line: number) => ({ line, isError: line === 3, body, tokens: undefined });
  expect(await store.addResults(run, [1, 2, 3, 4, 5].map(result))).toBe(true);
  const page = async (after: number, bytes: number, lines = 10) =>
    (await store.results(id, false, after, { lines, bytes })).map(({ line }) => line);
  expect(await page(0, 1500)).toEqual([1, 2]);
  expect(await page(2, 1)).toEqual([4]);
  expect(await page(0, 9000, 3)).toEqual([1, 2, 4]);
  expect(await page(4, 9000)).toEqual([5]);
  expect(await page(5, 9000)).toEqual([]);
});

it("lines that have not begun 24 hours after their batch was made are not begun, and those that were done are kept", async () => {
  const { id, times } = await create(requests(4));
  let nowMs = times.created + 86_400_000 - 1;
  const ran: number[] = [];
  const runLine = async (work: LineWork) => {
    ran.push(numberOf(work));
    // The second one is at work when its time ends.
    if (ran.length === 2) nowMs += 1;
    return answer();
  };
  await runOnce(runLine, { mostAtOnce: 1, nowMs: () => nowMs });
  expect(ran).toEqual([1, 2]);
  const ended = await state(id);
  expect(ended).toMatchObject({ status: "expired", counts: { total: 4, completed: 2, failed: 2 } });
  expect(ended.times.expired).not.toBeNull();
  expect(await idsOf(ended.outputFile)).toEqual(["r1", "r2"]);
  expect(await idsOf(ended.errorFile)).toEqual(["r3", "r4"]);
  const errors = await text((await files.content(caller.account, ended.errorFile ?? "")).body);
  expect(
    errors
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line).error.code),
  ).toEqual(["batch_expired", "batch_expired"]);
});

it("of two control planes that run one batch the later one's results count, under the same request ids", async () => {
  const { id } = await create(requests(2));
  const works: LineWork[][] = [[], []];
  const { promise: isTakenOver, resolve: takeOver } = Promise.withResolvers<void>();
  const { promise: hasBegun, resolve: begin } = Promise.withResolvers<void>();
  // Held for no time at all: whoever looks takes it from this one, which does not hear of it before its results come.
  const first = runOnce(async (work) => {
    works[0]?.push(work);
    if (works[0]?.length === 2) begin();
    await isTakenOver;
    return answer();
  });
  await hasBegun;
  await runOnce(async (work) => {
    works[1]?.push(work);
    return answer();
  });
  takeOver();
  await first;
  expect(await state(id)).toMatchObject({ status: "completed", counts: { total: 2, completed: 2, failed: 0 } });
  const [before, after] = works.map((of) => of.toSorted((a, b) => numberOf(a) - numberOf(b)));
  expect(after?.map(({ requestId }) => requestId)).toEqual(before?.map(({ requestId }) => requestId));
  // One record of each: settlement voids a lower attempt.
  expect(after?.every(({ attempts }, n) => attempts > (before?.[n]?.attempts ?? Number.POSITIVE_INFINITY))).toBe(true);
});

it("of two that take up one batch at once one has it", async () => {
  const { id } = await create(requests(1));
  const runs = await Promise.all(Array.from({ length: 8 }, () => store.claim(id, 60_000)));
  expect(runs.filter((run) => run !== undefined)).toHaveLength(1);
});

it("batches of accounts that have fewer at work or waiting come first", async () => {
  const made: string[] = [];
  for (let n = 0; n < 3; n++) made.push((await create(requests(1))).id);
  const busy = caller;
  const account = await world.account(0n);
  caller = { account, key: await world.keyOf(account) } as Caller;
  for (let n = 0; n < 2; n++) made.push((await create(requests(1))).id);
  caller = busy;
  const [a1, a2, a3, b1, b2] = made;
  const order = async () => (await store.due(9)).map(({ id, rank }) => [id, rank]);
  expect(await order()).toEqual([
    [a1, 1],
    [b1, 1],
    [a2, 2],
    [b2, 2],
    [a3, 3],
  ]);
  await store.claim(a1 as BatchId, 60_000);
  await store.claim(a2 as BatchId, 60_000);
  expect(await order()).toEqual([
    [b1, 1],
    [b2, 2],
    [a3, 3],
  ]);
  expect(await store.due(1)).toEqual([{ id: b1, run: 0, rank: 1 }]);
});
