// Runs of batches on a real PostgreSQL and a real folder, with fake requests.
import { once } from "node:events";
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import type { BatchId } from "../../../control-plane/batches/batch.ts";
import type { LineAnswer, LineWork } from "../../../control-plane/batches/line.ts";
import type { RunDeps } from "../../../control-plane/batches/run-batch.ts";
import { FileNotFound, fileStoreUnavailable } from "../../../control-plane/files/errors.ts";
import type { AccountId } from "../../../proto/ids.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { answer, type BatchWorld, never, numberOf, openBatchWorld, request, requests } from "./batch-world.ts";

let postgres: TestDatabases;
let world: BatchWorld["world"];
let folder: string;
let files: BatchWorld["files"];
let store: BatchWorld["store"];
let caller: BatchWorld["caller"];
let create: BatchWorld["create"];
let claimNext: BatchWorld["claimNext"];
let runOnce: BatchWorld["runOnce"];
let state: BatchWorld["state"];
let idsOf: BatchWorld["idsOf"];
beforeAll(async () => {
  postgres = await sharedPostgres();
});
beforeEach(async () => {
  const opened = await openBatchWorld(postgres);
  ({ world, folder, files, store, caller, create, claimNext, runOnce, state, idsOf } = opened);
});
afterAll(() => postgres?.stop());

const noFunds = ({ attempts }: LineWork): LineAnswer => ({
  kind: "again",
  why: "funds",
  afterMs: 20,
  attempts,
  otherwise: { status: 402, body: "{}" },
});

/** Control planes that took it up and were never heard of again. */
async function takenUpAndLost(times: number): Promise<void> {
  for (let n = 0; n < times; n++) await claimNext();
}

/** Its first `done` lines have a result, then its control plane broke down. */
async function brokenOffAfter(lines: readonly string[], done: number): Promise<BatchId> {
  const { id } = await create(lines);
  const runLine = async (work: LineWork) => {
    if (numberOf(work) > done) throw new Error("a control plane that breaks down");
    return answer();
  };
  await expect(runOnce(runLine, { maxConcurrent: 1 })).rejects.toThrow("breaks down");
  expect((await state(id)).counts.completed).toBe(done);
  return id;
}
const expireInput = () =>
  world.db
    .updateTable("file")
    .set({ expiresAt: new Date(0) })
    .where("purpose", "=", "batch")
    .execute();

it("a batch resumed after its input expired continues with it, without repeating finished lines", async () => {
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
  await world.db.updateTable("file").set({ removedAt: new Date() }).execute();
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

it("an input that repeatedly cannot be read ends the batch with the existing results", async () => {
  const id = await brokenOffAfter(requests(4), 2);
  await takenUpAndLost(97);
  const away: Partial<RunDeps> = {
    files: { ...files, input: () => Promise.reject(fileStoreUnavailable(new Error("x"))) },
  };
  // The run that broke off added results; 3 more make 100 that did not.
  for (let n = 0; n < 3; n++) {
    await expect(runOnce(async () => answer(), away)).rejects.toMatchObject({ code: "file_store_away" });
    expect((await state(id)).status).toBe("in_progress");
  }
  await runOnce(async () => answer(), away);
  const ended = await state(id);
  expect(ended).toMatchObject({ status: "completed", errors: [{ code: "internal_error" }], counts: { completed: 2 } });
  expect(await idsOf(ended.outputFile)).toEqual(["r1", "r2"]);
});

const unwritable = (): Partial<RunDeps> => ({
  files: { ...files, write: () => Promise.reject(fileStoreUnavailable(new Error("x"))) },
});

it("results that cannot be written for a time become files later", async () => {
  const { id } = await create(requests(2));
  await expect(runOnce(async () => answer(), unwritable())).rejects.toMatchObject({ code: "file_store_away" });
  await takenUpAndLost(120);
  await expect(runOnce(async () => answer(), unwritable())).rejects.toMatchObject({ code: "file_store_away" });
  expect(await state(id)).toMatchObject({ status: "finalizing", errors: [{ code: "output_waits" }] });
  await runOnce(async () => answer());
  const ended = await state(id);
  expect(ended).toMatchObject({ status: "completed", errors: null });
  expect(await idsOf(ended.outputFile)).toEqual(["r1", "r2"]);
});

it("a batch whose files cannot be written is not resumed before its pause ends, which doubles", async () => {
  const { id } = await create(requests(1));
  const pauseMs = async () => {
    const { rows } = await world.pool.query("select extract(epoch from locked_until - now()) * 1000 as ms from batch");
    return Number(rows[0].ms);
  };
  // The first run adds results, and counts as none that did not.
  for (const ms of [60_000, 60_000, 120_000, 240_000]) {
    const change = { ...unwritable(), firstPauseMs: 60_000 };
    await expect(runOnce(async () => answer(), change)).rejects.toMatchObject({ code: "file_store_away" });
    expect(await store.due(1)).toEqual([]);
    expect(await store.claim(id, 0)).toBeUndefined();
    const late = ms - (await pauseMs());
    expect(late >= 0 && late < 30_000).toBe(true);
    await world.pool.query("update batch set locked_until = now()");
  }
  const change = { ...unwritable(), firstPauseMs: 36_000_000 };
  await expect(runOnce(async () => answer(), change)).rejects.toMatchObject({ code: "file_store_away" });
  expect(await pauseMs()).toBeLessThanOrEqual(900_000);
  expect((await state(id)).errors).toHaveLength(1);
});

it("files that cannot be written for a week end the batch with the reason, and its results stay", async () => {
  const { id } = await create(requests(1));
  await expect(runOnce(async () => answer(), unwritable())).rejects.toMatchObject({ code: "file_store_away" });
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

it("a released run, or one that added a result, does not count as a run without results", async () => {
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

it("a line without funds waits for the hold of a running one", async () => {
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

it("if the input breaks off, the running lines end and their results count before the run ends", async () => {
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

it("text that PostgreSQL cannot store is reported without it", async () => {
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

it("a result that the database rejects ends the run with its reason", async () => {
  await create(requests(1));
  const refused = async () => ({ ...answer(), body: '"\0"' }) as LineAnswer;
  await expect(runOnce(refused)).rejects.toThrow(/invalid byte sequence/);
});

it("a run that cannot renew its lock before it expires ends", async () => {
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

it("long lines run alone", async () => {
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

it("results are read in pages limited by bytes, without omissions", async () => {
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
