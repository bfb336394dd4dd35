// Host clocks run ten times faster here: 18 s away are three minutes at their real values, nine times the lease of a host.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { query } from "../e2e/spine/database.ts";
import { longer } from "../fakes/nightly.ts";
import { watchPages } from "../fakes/page-times.ts";
import { instancePids, isAlive, type Stack } from "../fakes/processes.ts";
import { startTinyStack } from "./tiny-stack.ts";

let stack: Stack;
let model: string;
const scale = longer(0.1, 1);

beforeAll(async () => {
  ({ stack, model } = await startTinyStack({ controlPlaneEnv: { STOKER_HOST_CLOCKS: String(scale) } }));
});
afterAll(() => stack?.stop());

const pids = () => [1, 2].flatMap((n) => instancePids(stack.agentFolder(n)));
const placed = () =>
  query(stack.databaseUrl, "select instance_id, host_id, generation, identity from instance order by instance_id");
const ask = async () =>
  (await stack.call("POST", "/v1/completions", { model, prompt: "hello", max_tokens: 4 }).catch(() => undefined))
    ?.status;

it("moves and restarts nothing when the control plane was down for three minutes", async () => {
  const before = { pids: pids(), placed: await placed() };
  expect(before.pids).toHaveLength(2);
  const agents = [1, 2].map((n) => JSON.parse(readFileSync(join(stack.agentFolder(n), "agent.json"), "utf8")));
  // P22: the agents' metrics pages are asked for every second all along.
  const stopWatching = watchPages(agents.map(({ metrics_port }) => `http://127.0.0.1:${metrics_port}/metrics`));
  await stack.controlPlane.kill9();
  await wait(180_000 * scale);
  stack.controlPlane.start();
  await vi.waitFor(async () => expect(await ask()).toBe(200), { timeout: 60_000, interval: 200 });
  // Twice the time after which a lost host's instances would be placed anew.
  await wait(120_000 * scale);
  for (const { url, missed, times } of await stopWatching()) {
    expect(missed, url).toBe(0);
    expect(times.all, url).toBeGreaterThan((200_000 * scale) / 1_000);
    expect(times.quick / times.all, `${url}: ${JSON.stringify(times)}`).toBeGreaterThanOrEqual(0.95);
  }
  expect({ pids: pids(), placed: await placed() }).toEqual(before);
  expect(before.pids.every(isAlive)).toBe(true);
  expect(await ask()).toBe(200);
}, 600_000);
