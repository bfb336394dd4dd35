// The worst moment for an agent to die: its usage record is durable and the gateway has not read a byte of the answer.
import { writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { ledgerFacts, usageOf } from "../e2e/spine/database.ts";
import type { Stack } from "../fakes/processes.ts";
import { startTinyStack } from "./tiny-stack.ts";

const patient = { timeout: 60_000, interval: 100 };
const fuse = join(tmpdir(), `stoker-fuse-${process.pid}`);
let stack: Stack;
let model: string;

beforeAll(async () => {
  ({ stack, model } = await startTinyStack({ agentEnv: { STOKER_FAULT: `after_record@${fuse}` } }));
});
afterAll(() => stack?.stop());

it("is tried on the other host, billed once, and the first attempt is voided when its record comes", async () => {
  writeFileSync(fuse, "");
  const answer = await fetch(`${stack.url}/v1/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${stack.apiKey}`, "content-type": "application/json" },
    body: JSON.stringify({ model, prompt: "hello", max_tokens: 4 }),
  });
  expect(answer.status, await answer.clone().text()).toBe(200);
  // Its connections end before this process is told of its death.
  const dead = await vi.waitFor(() => {
    const [one] = stack.agents.filter((agent) => !agent.isRunning);
    expect(one).toBeDefined();
    return one;
  }, patient);
  dead?.start();
  const requestId = answer.headers.get("x-stoker-request-id") ?? "";
  await vi.waitFor(async () => expect(await usageOf(stack.databaseUrl, requestId)).toHaveLength(2), patient);
  const rows = await usageOf(stack.databaseUrl, requestId);
  expect(rows.find((row) => row.attempt === 1)).toMatchObject({ voided: true, charge: 0 });
  const kept = rows.find((row) => row.attempt === 2);
  expect(kept).toMatchObject({ voided: false });
  expect(kept?.charge).toBeGreaterThan(0);
  expect(await ledgerFacts(stack.databaseUrl)).toEqual({ sum: 0, overspent: 0, capturesPerRequest: 1 });
});
