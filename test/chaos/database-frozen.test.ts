// PostgreSQL frozen (SIGSTOP of all its processes): its connections stay open and nothing replies.
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { ledgerFacts, query } from "../e2e/spine/database.ts";
import { type ExternalStack, startExternalStack } from "../fakes/external-stack.ts";

const patient = { timeout: 30_000, interval: 100 };
let world: ExternalStack;
beforeAll(async () => {
  world = await startExternalStack({ isDatabaseOnDisk: true });
}, 120_000);
afterAll(() => world?.stop());

it("returns 503 for management in less than a second, serves inference within its slices, and recovers by itself", async () => {
  const { stack, model, engine } = world;
  const read = () => stack.call("GET", "/v1/api-tokens");
  const write = () => stack.call("POST", "/v1/admin/external", { name: "fake/other", url: engine.origin });
  const ask = () => stack.call("POST", "/v1/completions", { model, prompt: "hello", max_tokens: 2 });
  expect((await read()).status).toBe(200);
  await vi.waitFor(async () => expect((await ask()).status).toBe(200), patient);

  stack.postgres.freeze();
  try {
    // The first request finds connections that look healthy.
    for (const call of [read, write, read, write]) {
      const askedMs = performance.now();
      const { status, body } = await call();
      expect(status, JSON.stringify(body)).toBe(503);
      expect(performance.now() - askedMs).toBeLessThan(1_000);
    }
    expect((await ask()).status).toBe(200);
    await wait(3_000);
  } finally {
    stack.postgres.thaw();
  }
  await vi.waitFor(async () => expect((await read()).status).toBe(200), patient);
  expect((await ask()).status).toBe(200);
  await vi.waitFor(async () => {
    const [row] = await query<{ n: number }>(stack.databaseUrl, "select count(*)::int as n from usage");
    expect(row?.n).toBe(engine.log.length);
  }, patient);
  expect(await ledgerFacts(stack.databaseUrl)).toEqual({ sum: 0, overspent: 0, capturesPerRequest: 1 });
  expect(stack.controlPlane.log().split("database not responding").length - 1).toBe(1);
}, 120_000);
