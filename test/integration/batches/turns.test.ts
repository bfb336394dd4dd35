// The order of batches, which of several control planes has one, and when its time is over.
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import type { BatchId } from "../../../control-plane/batches/batch.ts";
import type { LineWork } from "../../../control-plane/batches/line.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { answer, type BatchWorld, numberOf, openBatchWorld, requests } from "./batch-world.ts";

let postgres: TestDatabases;
let at: BatchWorld;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
beforeEach(async () => {
  at = await openBatchWorld(postgres);
});
afterAll(() => postgres?.stop());

it("lines not started 24 hours after the creation of their batch are not started, and finished ones are retained", async () => {
  const { id, times } = await at.create(requests(4));
  let nowMs = times.created + 86_400_000 - 1;
  const ran: number[] = [];
  const runLine = async (work: LineWork) => {
    ran.push(numberOf(work));
    // The second one is at work when its time ends.
    if (ran.length === 2) nowMs += 1;
    return answer();
  };
  await at.runOnce(runLine, { maxConcurrent: 1, nowMs: () => nowMs });
  expect(ran).toEqual([1, 2]);
  const ended = await at.state(id);
  expect(ended).toMatchObject({ status: "expired", counts: { total: 4, completed: 2, failed: 2 } });
  expect(ended.times.expired).not.toBeNull();
  expect(await at.idsOf(ended.outputFile)).toEqual(["r1", "r2"]);
  expect(await at.idsOf(ended.errorFile)).toEqual(["r3", "r4"]);
  const errors = await text((await at.files.content(at.caller.account, ended.errorFile ?? "")).body);
  expect(
    errors
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line).error.code),
  ).toEqual(["batch_expired", "batch_expired"]);
});

it("no line starts once the results of a batch reach their limit, including those of earlier runs", async () => {
  const { id } = await at.create(requests(4));
  const ran: number[] = [];
  const runLine = async (work: LineWork) => {
    ran.push(numberOf(work));
    if (ran.length === 2) throw new Error("a control plane that breaks down");
    return answer();
  };
  await expect(at.runOnce(runLine, { maxConcurrent: 1 })).rejects.toThrow("breaks down");
  const { bytes } = await at.store.done(id);
  await at.runOnce(runLine, { maxConcurrent: 1, maxOutputBytes: bytes + 1 });
  expect(ran).toEqual([1, 2, 2]);
  const ended = await at.state(id);
  expect(ended).toMatchObject({ status: "completed", counts: { total: 4, completed: 2, failed: 2 } });
  expect(await at.idsOf(ended.outputFile)).toEqual(["r1", "r2"]);
  const errors = await text((await at.files.content(at.caller.account, ended.errorFile ?? "")).body);
  expect(
    errors
      .trimEnd()
      .split("\n")
      .map((line) => [JSON.parse(line).custom_id, JSON.parse(line).error.code]),
  ).toEqual([
    ["r3", "batch_output_full"],
    ["r4", "batch_output_full"],
  ]);
});

it("of two control planes that run one batch, the results of the later one count, under the same request ids", async () => {
  const { id } = await at.create(requests(2));
  const works: LineWork[][] = [[], []];
  const { promise: isTakenOver, resolve: takeOver } = Promise.withResolvers<void>();
  const { promise: hasBegun, resolve: begin } = Promise.withResolvers<void>();
  // Held for no time at all: whoever looks takes it from this one, which does not hear of it before its results come.
  const first = at.runOnce(async (work) => {
    works[0]?.push(work);
    if (works[0]?.length === 2) begin();
    await isTakenOver;
    return answer();
  });
  await hasBegun;
  await at.runOnce(async (work) => {
    works[1]?.push(work);
    return answer();
  });
  takeOver();
  await first;
  expect(await at.state(id)).toMatchObject({ status: "completed", counts: { total: 2, completed: 2, failed: 0 } });
  const [before, after] = works.map((of) => of.toSorted((a, b) => numberOf(a) - numberOf(b)));
  expect(after?.map(({ requestId }) => requestId)).toEqual(before?.map(({ requestId }) => requestId));
  // One record of each: settlement voids a lower attempt.
  expect(after?.every(({ attempts }, n) => attempts > (before?.[n]?.attempts ?? Number.POSITIVE_INFINITY))).toBe(true);
});

it("of two concurrent claims of a batch one succeeds", async () => {
  const { id } = await at.create(requests(1));
  const runs = await Promise.all(Array.from({ length: 8 }, () => at.store.claim(id, 60_000)));
  expect(runs.filter((run) => run !== undefined)).toHaveLength(1);
});

it("batches of accounts with fewer running or waiting ones come first", async () => {
  const made: BatchId[] = [];
  for (let n = 0; n < 3; n++) made.push((await at.create(requests(1))).id);
  const other = await at.callerOf();
  for (let n = 0; n < 2; n++) made.push((await at.create(requests(1), null, other)).id);
  const [a1, a2, a3, b1, b2] = made as [BatchId, BatchId, BatchId, BatchId, BatchId];
  const order = async () => (await at.store.due(9)).map(({ id, rank }) => [id, rank]);
  expect(await order()).toEqual([
    [a1, 1],
    [b1, 1],
    [a2, 2],
    [b2, 2],
    [a3, 3],
  ]);
  await at.store.claim(a1, 60_000);
  await at.store.claim(a2, 60_000);
  expect(await order()).toEqual([
    [b1, 1],
    [b2, 2],
    [a3, 3],
  ]);
  expect(await at.store.due(1)).toEqual([{ id: b1, run: 0, rank: 1 }]);
});
