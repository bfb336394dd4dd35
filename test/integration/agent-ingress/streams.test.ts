import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { UsagePlacement } from "../../../proto/ticket.ts";
import { call, type DataPath, startDataPath } from "../../fakes/data-path.ts";
import { type FakeEngine, startFakeEngine } from "../../fakes/engine.ts";
import { pendingRecords } from "../../fakes/usage-record.ts";

let engine: FakeEngine;
let path: DataPath;

beforeEach(async () => {
  engine = await startFakeEngine({ tokens: 5 });
  path = await startDataPath(engine.origin);
});
afterEach(async () => {
  await path.close();
  await engine.close();
});

const chunksOf = (text: string) =>
  text
    .split("\n\n")
    .filter((frame) => frame.startsWith("data: {"))
    .map((frame) => JSON.parse(frame.slice(6)));

describe.each(["extra", "finish"] as const)("an engine with usage on its %s chunk", (usage) => {
  it.each(["merge", "extra", "drop", "continuous", "continuous_merge"] as const satisfies readonly UsagePlacement[])(
    "and a ticket that says %s: the stream, its trailer and the record agree",
    async (placement) => {
      engine.behave({ usage, cachedTokens: 2 });
      const options = { include_usage: true, continuous_usage_stats: placement.startsWith("continuous") };
      const reply = await call(path.port, { ticket: { usage: placement }, body: { stream_options: options } });
      expect(reply.complete).toBe(true);
      expect(reply.text.endsWith("data: [DONE]\n\n")).toBe(true);
      expect(reply.usage).toEqual({
        input: 3,
        cachedInput: 2,
        output: 5,
        reasoning: 0,
        source: "engine",
        endReason: "stop",
      });
      const [record] = await pendingRecords(path.spool, 10);
      expect([record?.inputTokens, record?.cachedInputTokens, record?.outputTokens]).toEqual([3, 2, 5]);
      const chunks = chunksOf(reply.text);
      const carrying = chunks.filter((c) => c.usage);
      const last = chunks.at(-1);
      // (3 - 2) x 1000 + 2 x 500 + 5 x 2000 nano-USD.
      if (placement === "drop") expect(carrying).toEqual([]);
      else expect(last.usage.estimated_cost).toBe(0.000012);
      if (placement === "merge") expect([carrying.length, last.choices[0].finish_reason]).toEqual([1, "stop"]);
      if (placement === "extra") expect([carrying.length, last.choices]).toEqual([1, []]);
      if (placement === "continuous_merge") expect(last.choices[0].finish_reason).toBe("stop");
      if (placement.startsWith("continuous") && usage === "extra") expect(carrying.length).toBe(chunks.length);
    },
  );
});

it("prices a complete answer and sends the record's figures in a header", async () => {
  const reply = await call(path.port, { ticket: { stream: false } });
  expect(JSON.parse(reply.text).usage.estimated_cost).toBe(0.000013);
  expect(reply.usage).toMatchObject({ input: 3, output: 5, source: "engine", endReason: "stop" });
  const [record] = await pendingRecords(path.spool, 10);
  expect(record).toMatchObject({
    source: "engine",
    outputTokens: 5,
    endReason: "stop",
    nodeEpoch: "3",
  });
  expect(JSON.parse(record?.ticket ?? "")).toMatchObject({ leaseIds: ["lease1"], hold: "1000000" });
});

it("tells the engine our request id and attempt", async () => {
  await call(path.port, { ticket: { requestId: "r".repeat(24), attempt: 3 } });
  expect(engine.log[0]?.id).toBe(`${"r".repeat(24)}.3`);
});

it("ends a stream that the engine broke with an error frame, without [DONE], billed for what came", async () => {
  engine.behave({ breakAfter: 3 });
  const reply = await call(path.port);
  expect(reply.complete).toBe(true);
  expect(chunksOf(reply.text).at(-1).error).toMatchObject({ type: "server_error", param: null, code: "engine_error" });
  expect(reply.text).not.toContain("[DONE]");
  expect(reply.usage).toMatchObject({ output: 3, source: "counted", endReason: "engine_error" });
  const [record] = await pendingRecords(path.spool, 10);
  expect([record?.outputTokens, record?.endReason]).toEqual([3, "engine_error"]);
});

it("answers 502 and bills nothing when the engine breaks before its first byte", async () => {
  engine.behave({ breakAfter: 0 });
  const reply = await call(path.port);
  expect([reply.status, reply.refusal]).toEqual([502, undefined]);
  expect(reply.usage).toMatchObject({ input: 0, output: 0, endReason: "engine_error" });
});

it("gives up on an engine that is silent before the first byte or between two", async () => {
  const impatient = await startDataPath(engine.origin, { limits: { firstByteMs: 200 } });
  engine.behave({ hangAfter: 0 });
  const first = await call(impatient.port);
  expect([first.status, first.usage?.endReason, first.usage?.output]).toEqual([504, "engine_timeout", 0]);
  await impatient.close();
  // A machine that stands still between two tokens is not given up for it.
  const quiet = await startDataPath(engine.origin, { limits: { gapMs: 3_000 } });
  engine.behave({ hangAfter: 2 });
  const gap = await call(quiet.port);
  expect(gap.usage).toMatchObject({ output: 2, source: "counted", endReason: "engine_timeout" });
  await expect.poll(() => engine.running).toBe(0);
  await quiet.close();
});

it("waits longer for a first byte than for the next ones", async () => {
  const patient = await startDataPath(engine.origin, { limits: { firstByteMs: 30_000, gapMs: 3_000 } });
  engine.behave({ firstByteMs: 4_000 });
  expect((await call(patient.port)).usage?.endReason).toBe("stop");
  await patient.close();
});

it("bills a stream without any usage by its frames, and shows that in the answer", async () => {
  engine.behave({ usage: "none" });
  const reply = await call(path.port);
  expect(reply.usage).toMatchObject({ input: 10, output: 5, source: "counted", endReason: "stop" });
  expect(chunksOf(reply.text).at(-1).usage).toMatchObject({ prompt_tokens: 10, completion_tokens: 5 });
});

it("puts usage once for several choices", async () => {
  const reply = await call(path.port, { ticket: { permits: 3 }, body: { n: 3 } });
  const carrying = chunksOf(reply.text).filter((c) => c.usage);
  expect(carrying).toHaveLength(1);
  expect(carrying[0].choices[0].finish_reason).toBe("stop");
  expect(reply.usage?.output).toBe(15);
});
