import { afterEach, beforeEach, expect, it } from "vitest";
import { call, type DataPath, instanceId, startDataPath } from "../../fakes/data-path.ts";
import { type FakeEngine, startFakeEngine } from "../../fakes/engine.ts";
import { pendingRecords } from "../../fakes/usage-record.ts";

let engine: FakeEngine;
let path: DataPath;
/** What runs ends once this is open. */
let gate: PromiseWithResolvers<void>;

beforeEach(async () => {
  engine = await startFakeEngine({ tokens: 40, tokenMs: 10 });
  path = await startDataPath(engine.origin);
  gate = Promise.withResolvers();
});
afterEach(async () => {
  gate.resolve();
  await path.close();
  await engine.close();
});

it("lets what runs end, refuses what waits and what is new, and says when nothing is in flight", async () => {
  path.target({ maxBatchSize: 1 });
  engine.behave({ until: gate.promise });
  const running = call(path.port);
  await expect.poll(() => engine.running).toBe(1);
  const waiting = call(path.port);
  await expect.poll(() => path.ingress.stats(instanceId).waiting).toBe(1);
  path.ingress.markDraining(instanceId);
  expect((await waiting).refusal).toBe("draining");
  expect((await call(path.port)).refusal).toBe("draining");
  expect(await path.ingress.drained(instanceId, 20)).toBe(false);
  gate.resolve();
  expect(await path.ingress.drained(instanceId, 20_000)).toBe(true);
  expect((await running).usage).toMatchObject({ output: 40, endReason: "stop" });
});

it("finishes what runs on an instance that left the set and knows it no more", async () => {
  engine.behave({ until: gate.promise });
  const running = call(path.port);
  await expect.poll(() => engine.running).toBe(1);
  path.ingress.setTargets([]);
  expect((await call(path.port)).refusal).toBe("unknown_instance");
  gate.resolve();
  expect((await running).usage?.endReason).toBe("stop");
});

it("waits for what runs on an instance that a tombstone took out of the set, and cuts it after the deadline", async () => {
  engine.behave({ tokens: 10_000 });
  const running = call(path.port, { ticket: { maxTokens: 10_000 } });
  await expect.poll(() => engine.log[0]?.sentTokens ?? 0).toBeGreaterThan(3);
  path.ingress.setTargets([]);
  expect(await path.ingress.drained(instanceId, 20)).toBe(false);
  await path.ingress.cut(instanceId);
  const { usage } = await running;
  expect(usage).toMatchObject({ source: "engine", endReason: "drained", output: engine.log[0]?.sentTokens });
  expect(await path.ingress.drained(instanceId, 20_000)).toBe(true);
});

it("bills a client that disconnects from an instance under a tombstone by the count of its engine", async () => {
  engine.behave({ tokens: 10_000 });
  const client = new AbortController();
  const running = call(path.port, { ticket: { maxTokens: 10_000 }, signal: client.signal });
  await expect.poll(() => engine.log[0]?.sentTokens ?? 0).toBeGreaterThan(3);
  path.ingress.setTargets([]);
  client.abort();
  await running.catch(() => {});
  await expect.poll(() => path.spool.depth().records).toBe(1);
  const [record] = await pendingRecords(path.spool, 10);
  expect(record).toMatchObject({ source: "engine", endReason: "client_gone", outputTokens: engine.log[0]?.sentTokens });
});

it("cuts what is left at the end of a shutdown, with its usage on record", async () => {
  engine.behave({ tokens: 10_000 });
  const running = call(path.port, { ticket: { maxTokens: 10_000 } });
  await expect.poll(() => engine.log[0]?.sentTokens ?? 0).toBeGreaterThan(3);
  await path.ingress.close(50);
  const reply = await running;
  expect(reply.text).toContain('"code":"drained"');
  expect(reply.text).not.toContain("[DONE]");
  expect(reply.usage).toMatchObject({ source: "engine", endReason: "drained", output: engine.log[0]?.sentTokens });
});

it("cuts what still runs after the drain of one instance, with its usage on record, before that engine is stopped", async () => {
  engine.behave({ tokens: 10_000 });
  const running = call(path.port, { ticket: { maxTokens: 10_000 } });
  await expect.poll(() => engine.log[0]?.sentTokens ?? 0).toBeGreaterThan(3);
  path.ingress.markDraining(instanceId);
  expect(await path.ingress.drained(instanceId, 20)).toBe(false);
  await path.ingress.cut(instanceId);
  expect(path.ingress.stats(instanceId).inFlight).toBe(0);
  const reply = await running;
  expect(reply.text).toContain('"code":"drained"');
  expect(reply.usage).toMatchObject({ source: "engine", endReason: "drained", output: engine.log[0]?.sentTokens });
  await expect.poll(() => engine.running).toBe(0);
});

it("is not drained while the engine itself still works at something", async () => {
  engine.linger(1);
  path.ingress.markDraining(instanceId);
  expect(await path.ingress.drained(instanceId, 300)).toBe(false);
  const soon = path.ingress.drained(instanceId, 20_000);
  engine.linger(0);
  expect(await soon).toBe(true);
});

it("does not wait for an engine that cannot say what it works at", async () => {
  await engine.close();
  expect(await path.ingress.drained(instanceId, 20_000)).toBe(true);
});
