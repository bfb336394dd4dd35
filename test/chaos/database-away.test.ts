// P19: PostgreSQL killed for longer than a slice of a budget lives. Slice clocks run at 0.2, so 12 s here are a minute.
// P22 beside it: the metrics pages are asked for every second all along.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { ledgerFacts, query } from "../e2e/spine/database.ts";
import { type ExternalStack, startExternalStack } from "../fakes/external-stack.ts";
import { mayBeSlow, watchPages } from "../fakes/page-times.ts";
import type { ControlPlane } from "../fakes/processes.ts";

const scale = 0.2;
const patient = { timeout: 30_000, interval: 100 };
const awayMs = 60_000 * scale;
const tokens = 4;

let world: ExternalStack;
beforeAll(async () => {
  world = await startExternalStack({
    isDatabaseOnDisk: true,
    replicas: 2,
    engine: { tokens },
    controlPlaneEnv: { STOKER_SLICE_CLOCKS: String(scale) },
  });
});
afterAll(() => world?.stop());

interface Sent {
  readonly at: ControlPlane;
  readonly sentMs: number;
  readonly status: number;
  readonly retryAfter: string | null;
}

async function ask(at: ControlPlane): Promise<Sent> {
  const sentMs = performance.now();
  const answer = await fetch(`${at.url}/v1/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${world.stack.apiKey}`, "content-type": "application/json" },
    body: JSON.stringify({ model: world.model, prompt: "hello", max_tokens: tokens }),
    signal: AbortSignal.timeout(30_000),
  });
  await answer.arrayBuffer();
  return { at, sentMs, status: answer.status, retryAfter: answer.headers.get("retry-after") };
}

/** The metrics pages of both control planes and of the agent. */
function metricsPages(): string[] {
  const { stack } = world;
  const read = (path: string) => JSON.parse(readFileSync(path, "utf8"));
  const admins = ["control-plane.json", "control-plane-2.json"].map((file) => read(join(stack.folder, file)).admin);
  const agent = read(join(stack.agentFolder(1), "agent.json")).metrics_port;
  return [...admins, agent].map((port) => `http://127.0.0.1:${port}/metrics`);
}

/** One request after the other at each control plane, with a short pause. */
function keepAsking() {
  const sent: Sent[] = [];
  let isOver = false;
  const done = Promise.all(
    world.stack.controlPlanes.map(async (at) => {
      while (!isOver) {
        sent.push(await ask(at));
        await wait(50);
      }
    }),
  );
  return async () => {
    isOver = true;
    await done;
    return sent;
  };
}

it("returns 503 from management at once, continues inference within its slices, loses nothing, and recovers unaided", async () => {
  const { stack } = world;
  // The requests that warmed the stack up are settled first: what is counted below is the test's own.
  await vi.waitFor(async () => {
    const [row] = await query<{ n: number }>(stack.databaseUrl, "select count(*)::int as n from usage");
    expect(row?.n).toBe(world.engine.log.length);
  }, patient);
  const before = world.engine.log.length;
  const stopAsking = keepAsking();
  const stopWatching = watchPages(metricsPages());
  await wait(4_000);

  await stack.postgres.kill9();
  const killedMs = performance.now();
  await wait(300);
  for (const at of stack.controlPlanes) {
    const request = { name: "fake/other", url: world.engine.origin, max_batch_size: 1 };
    const tookMs: number[] = [];
    // What else the machine does can only lengthen it: the quickest of three is the nearest to what it takes by itself.
    for (let n = 0; n < 3; n++) {
      const askedMs = performance.now();
      const { status, body } = await stack.call("POST", "/v1/admin/external", request, {}, at);
      expect(status, JSON.stringify(body)).toBe(503);
      tookMs.push(performance.now() - askedMs);
    }
    expect(Math.min(...tookMs)).toBeLessThan(1_000);
  }
  await wait(awayMs - (performance.now() - killedMs));
  for (const at of stack.controlPlanes) expect((await fetch(`${at.url}/healthz`)).status).toBe(200);

  await stack.postgres.restart();
  const backMs = performance.now();
  await vi.waitFor(async () => {
    for (const at of stack.controlPlanes) expect((await ask(at)).status).toBe(200);
  }, patient);
  await wait(1_000);
  const sent = await stopAsking();

  for (const { url, missed, times } of await stopWatching()) {
    expect(missed, url).toBe(0);
    expect(times.all, url).toBeGreaterThan(awayMs / 1_000);
    expect(times.all - times.quick, `${url}: ${JSON.stringify(times)}`).toBeLessThanOrEqual(mayBeSlow(times));
  }

  const during = sent.filter((one) => one.sentMs >= killedMs && one.sentMs < backMs);
  const answered = during.filter((one) => one.status === 200);
  // A slice holds at least the money of two more requests at any time, and of some seconds of a busy account.
  for (const at of stack.controlPlanes)
    expect(answered.filter((one) => one.at === at).length).toBeGreaterThanOrEqual(2);
  // No money could be promised any more: that is no fault of the customer's.
  const refused = during.filter((one) => one.status !== 200);
  expect(refused.length).toBeGreaterThan(0);
  expect(new Set(refused.map((one) => one.status))).toEqual(new Set([503]));
  expect(refused.every((one) => Number(one.retryAfter) > 0)).toBe(true);

  // Every token the engine made for an answer is in the books, though the database was away when most were made.
  const made = world.engine.log.slice(before).filter((one) => one.end === "done").length;
  await vi.waitFor(async () => {
    const [row] = await query<{ n: number; tokens: number }>(
      stack.databaseUrl,
      `select count(*)::int as n, sum(output_tokens)::int as tokens from usage where output_tokens = ${tokens}`,
    );
    expect(row).toEqual({ n: made, tokens: made * tokens });
  }, patient);
  expect(await ledgerFacts(stack.databaseUrl)).toEqual({ sum: 0, overspent: 0, capturesPerRequest: 1 });
}, 240_000);
