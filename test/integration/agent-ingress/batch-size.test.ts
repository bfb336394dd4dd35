import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { call, type DataPath, instanceId, startDataPath } from "../../fakes/data-path.ts";
import { type FakeEngine, startFakeEngine } from "../../fakes/engine.ts";

let engine: FakeEngine;
let path: DataPath;

beforeEach(async () => {
  engine = await startFakeEngine({ tokens: 4, tokenMs: 1 });
});
afterEach(async () => {
  await path.close();
  await engine.close();
});

it("never runs more than the batch holds: 300 at once, batch 8, the rest wait or are told when to come back", async () => {
  path = await startDataPath(engine.origin, { limits: { queueLimit: 32 } });
  const replies = await Promise.all(Array.from({ length: 300 }, () => call(path.port)));
  expect(engine.maxRunning).toBe(8);
  const served = replies.filter((r) => r.status === 200);
  const busy = replies.filter((r) => r.status === 429);
  expect(served.length + busy.length).toBe(300);
  expect(served.length).toBeGreaterThanOrEqual(8 + 32);
  expect(busy.length).toBeGreaterThan(0);
  expect(busy.every((r) => r.refusal === "busy" && Number(r.headers["retry-after"]) >= 1)).toBe(true);
  expect(path.spool.depth().records).toBe(served.length);
  // What the control plane scales by.
  expect(path.ingress.stats(instanceId).turnedAway).toBe(busy.length);
});

it("serves all 300 with a queue that holds them, still 8 at a time, sequences counted", async () => {
  path = await startDataPath(engine.origin, { limits: { queueLimit: 300 } });
  const replies = await Promise.all(
    Array.from({ length: 300 }, (_, i) =>
      call(path.port, { ticket: { permits: 1 + (i % 4) }, body: { n: 1 + (i % 4) } }),
    ),
  );
  expect(replies.every((r) => r.status === 200 && r.usage?.endReason === "stop")).toBe(true);
  expect(engine.maxSequences).toBeLessThanOrEqual(8);
  await vi.waitFor(() => expect(path.ingress.stats(instanceId)).toMatchObject({ inFlight: 0, waiting: 0 }), {
    timeout: 20_000,
  });
  expect(path.ingress.stats(instanceId).tokensPerSecond).toBeGreaterThan(0);
});

it("refuses who waits past the deadline", async () => {
  engine.behave({ tokens: 1000, tokenMs: 5 });
  path = await startDataPath(engine.origin, { limits: { maxWaitMs: 150 } });
  path.target({ maxBatchSize: 1 });
  const running = call(path.port, { ticket: { maxTokens: 1000 } });
  await expect.poll(() => engine.running).toBe(1);
  const late = await call(path.port);
  expect([late.status, late.refusal]).toEqual([429, "busy"]);
  engine.behave({ tokens: 1, tokenMs: 0 });
  await path.ingress.close(0);
  expect((await running).usage?.endReason).toBe("drained");
});

it("refuses at once who will not wait, though there is room to wait", async () => {
  engine.behave({ tokens: 20_000, tokenMs: 5 });
  path = await startDataPath(engine.origin, { limits: { maxWaitMs: 3_600_000 } });
  path.target({ maxBatchSize: 1 });
  const running = call(path.port, { ticket: { maxTokens: 1000 } });
  await vi.waitFor(() => expect(engine.running).toBe(1), { timeout: 20_000 });
  engine.behave({ tokens: 1, tokenMs: 0 });
  const waits = call(path.port);
  await vi.waitFor(() => expect(path.ingress.stats(instanceId).waiting).toBe(1), { timeout: 20_000 });
  const hasty = await call(path.port, { ticket: { failFast: true } });
  expect([hasty.status, hasty.refusal]).toEqual([429, "busy"]);
  expect(path.ingress.stats(instanceId)).toMatchObject({ inFlight: 1, waiting: 1 });
  await path.ingress.close(0);
  expect([(await running).usage?.endReason, (await waits).refusal]).toEqual(["drained", "draining"]);
});

it("goes on under a batch size that changes", async () => {
  const gate = Promise.withResolvers<void>();
  engine.behave({ tokens: 20, tokenMs: 2, until: gate.promise });
  path = await startDataPath(engine.origin, { limits: { queueLimit: 300 } });
  path.target({ maxBatchSize: 2 });
  const all = Array.from({ length: 40 }, () => call(path.port));
  await expect.poll(() => engine.running).toBe(2);
  path.target({ maxBatchSize: 6 });
  await expect.poll(() => engine.running).toBe(6);
  gate.resolve();
  const replies = await Promise.all(all);
  expect(replies.every((r) => r.usage?.endReason === "stop")).toBe(true);
  expect(engine.maxRunning).toBe(6);
});
