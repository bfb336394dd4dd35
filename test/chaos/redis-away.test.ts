// Two control planes that share a Redis: one rate limit between them, and while Redis is killed, empty or back again no request
// and no money is lost, only the precision of the limit.
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { ledgerFacts, query, usageRows } from "../e2e/spine/database.ts";
import { type ExternalStack, startExternalStack } from "../fakes/external-stack.ts";
import type { ControlPlane } from "../fakes/processes.ts";
import { hasRedis, startRedis, type TestRedis, withoutRedis } from "../fakes/redis.ts";

const patient = { timeout: 30_000, interval: 50 };
const limit = 6;
const longMs = 20_000;
let redis: TestRedis;
let world: ExternalStack;
let one: ControlPlane;
let other: ControlPlane;

withoutRedis(
  "one rate limit over two control planes, their life while Redis is killed and flushed, and batches meanwhile",
);
beforeAll(async () => {
  if (!hasRedis) return;
  redis = await startRedis();
  world = await startExternalStack({
    isDatabaseOnDisk: true,
    replicas: 2,
    controlPlaneEnv: { REDIS_URL: redis.url, STOKER_BATCH_CLOCKS: "0.2" },
  });
  [one, other] = world.stack.controlPlanes as [ControlPlane, ControlPlane];
});
afterAll(async () => {
  await world?.stop();
  await redis?.stop();
});

async function setLimit(requests: number | null): Promise<void> {
  const { body } = await world.stack.call("GET", "/v1/me");
  const set = await world.stack.call("PUT", `/v1/admin/accounts/${body.uid}/limits`, { rate_limit: requests });
  expect(set.status, JSON.stringify(set.body)).toBe(200);
}
const ask = (at: ControlPlane, signal: AbortSignal | null = null) =>
  fetch(`${at.url}/v1/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${world.stack.apiKey}`, "content-type": "application/json" },
    body: JSON.stringify({ model: world.model, prompt: "hello", max_tokens: 4 }),
    signal,
  });
const left = async (at: ControlPlane) => Number((await ask(at)).headers.get("x-ratelimit-remaining-requests"));

/** Requests that stay in flight at one control plane until told. What the other last said counts for two seconds more: who is turned
 * away comes again. */
async function occupy(at: ControlPlane, count: number) {
  const leaving = new AbortController();
  const { running } = world.engine;
  world.engine.behave({ firstByteMs: longMs });
  const asked = Array.from({ length: count }, async () => {
    for (let status = 429; status === 429; )
      status = (await ask(at, leaving.signal).catch(() => undefined))?.status ?? 0;
  });
  await vi
    .waitFor(() => expect(world.engine.running).toBe(running + count), patient)
    .finally(() => world.engine.behave({ firstByteMs: 0 }));
  return async () => {
    leaving.abort();
    await Promise.all(asked);
  };
}

const lines = 60;

async function createBatch(): Promise<string> {
  const content = Array.from({ length: lines }, (_, n) =>
    JSON.stringify({
      custom_id: `r${n}`,
      method: "POST",
      url: "/v1/completions",
      body: { model: world.model, prompt: "hello", max_tokens: 4 },
    }),
  ).join("\n");
  const form = new FormData();
  form.set("purpose", "batch");
  form.set("file", new Blob([content]), "requests.jsonl");
  const headers = { authorization: `Bearer ${world.stack.apiKey}` };
  const file = await fetch(`${one.url}/v1/files`, { method: "POST", headers, body: form });
  expect(file.status).toBe(200);
  const { id } = (await file.json()) as { id: string };
  const request = { input_file_id: id, endpoint: "/v1/completions", completion_window: "24h" };
  const made = await world.stack.call("POST", "/v1/batches", request);
  expect(made.status, JSON.stringify(made.body)).toBe(200);
  return made.body.id;
}
const batch = async (id: string) => (await world.stack.call("GET", `/v1/batches/${id}`)).body;

describe.skipIf(!hasRedis)("one rate limit over two control planes", () => {
  it("applies at both when the operator sets it at one, and counts what runs at the other", async () => {
    await setLimit(limit);
    await vi.waitFor(async () => expect([await left(one), await left(other)]).toEqual([limit - 1, limit - 1]), patient);
    const release = await occupy(one, limit);
    await vi.waitFor(async () => expect((await ask(other)).status).toBe(429), patient);
    await release();
    await vi.waitFor(async () => expect((await ask(other)).status).toBe(200), patient);
  });

  it("is separate for each while Redis is unavailable, and shared again when it is back", async () => {
    await redis.kill9();
    const release = await occupy(one, limit);
    await vi.waitFor(async () => expect(await left(other)).toBe(limit - 1), patient);
    expect((await ask(one)).status).toBe(429);
    await redis.start();
    await vi.waitFor(async () => expect((await ask(other)).status).toBe(429), patient);
    await release();
  });

  it("loses no response and no usage record when Redis is killed, started and flushed under load", async () => {
    await setLimit(null);
    await vi.waitFor(async () => expect(await left(other)).toBeGreaterThan(100), patient);
    let isOver = false;
    const statuses: number[] = [];
    const ids: string[] = [];
    const load = [one, other, one, other].map(async (at) => {
      while (!isOver) {
        const answer = await ask(at);
        await answer.arrayBuffer();
        statuses.push(answer.status);
        ids.push(answer.headers.get("x-stoker-request-id") as string);
      }
    });
    const answered = (more: number) => {
      const from = statuses.length;
      return vi.waitFor(() => expect(statuses.length).toBeGreaterThan(from + more), patient);
    };
    for (let round = 0; round < 3; round++) {
      await answered(20);
      await redis.kill9();
      await answered(20);
      await redis.start();
      await answered(20);
      await redis.flush();
    }
    isOver = true;
    await Promise.all(load);
    expect(new Set(statuses)).toEqual(new Set([200]));
    await vi.waitFor(async () => {
      const billed = new Set((await usageRows(world.stack.databaseUrl)).map((row) => row.charge > 0 && row.request_id));
      expect(ids.filter((id) => !billed.has(id))).toEqual([]);
    }, patient);
    expect(await ledgerFacts(world.stack.databaseUrl)).toEqual({ sum: 0, overspent: 0, capturesPerRequest: 1 });
  });
});

describe.skipIf(!hasRedis)("a batch of two control planes", () => {
  it("continues while Redis is unavailable, runs one accepted in the meantime afterwards, and bills each line once", async () => {
    const patience = { timeout: 90_000, interval: 100 };
    const completed = (id: string) =>
      vi.waitFor(async () => {
        const { status, request_counts } = await batch(id);
        expect({ status, request_counts }).toEqual({
          status: "completed",
          request_counts: { total: lines, completed: lines, failed: 0 },
        });
      }, patience);
    world.engine.behave({ firstByteMs: 3_000 });
    const running = await createBatch();
    await vi.waitFor(() => expect(world.engine.running).toBeGreaterThan(0), patience);
    await redis.kill9();
    const accepted = await createBatch();
    world.engine.behave({ firstByteMs: 0 });
    await completed(running);
    expect((await batch(accepted)).status).toBe("validating");
    await redis.start();
    await completed(accepted);
    for (const id of [running, accepted])
      await vi.waitFor(async () => {
        const [billed] = await query<{ requests: number; rows: number }>(
          world.stack.databaseUrl,
          `select count(distinct request_id)::int as requests, count(*)::int as rows
           from usage where request_id like $1 and not voided`,
          [`${id}\\_%`],
        );
        expect(billed).toEqual({ requests: lines, rows: lines });
      }, patience);
    expect(await ledgerFacts(world.stack.databaseUrl)).toMatchObject({ sum: 0, overspent: 0, capturesPerRequest: 1 });
  });
});
