// P6 with real sessions over mutual TLS: 200 agents against a control plane that is killed. At every change
// test/unit/agent/session/herd.test.ts checks the arithmetic.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { type AgentFleet, startAgentFleet } from "../../fakes/agent-fleet.ts";
import { type Stack, startStack } from "../../fakes/processes.ts";

const size = 200;
/** 15 percent of two hundred. */
const maxPerSecond = 30;
const patient = { timeout: 120_000, interval: 50 };
/** P6. */
const backWithinMs = 60_000;

let stack: Stack;
let fleet: AgentFleet;

beforeAll(async () => {
  stack = await startStack({ agents: 0 });
  const { rpc } = JSON.parse(readFileSync(join(stack.folder, "control-plane.json"), "utf8"));
  const token = readFileSync(join(stack.folder, "secrets", "agent.token"), "utf8").trim();
  fleet = await startAgentFleet(size, `127.0.0.1:${rpc}`, token);
}, 600_000);
afterAll(async () => {
  await fleet?.stop();
  await stack?.stop();
});

const within = (times: readonly number[], fromMs: number) =>
  times.filter((at) => at >= fromMs && at < fromMs + 1_000).length;

it.each([0, 4_000, 45_000])(
  "agents that lose their control plane for %i ms or more do not reconnect together, but all in time",
  async (awayMs) => {
    await vi.waitFor(() => expect(fleet.agents.filter((one) => one.isConnected)).toHaveLength(size), patient);
    // Of the size of the whole fleet they hear at their renewals.
    const heard = fleet.agents.map((one) => one.heard);
    await vi.waitFor(() => expect(fleet.agents.every((one, n) => one.heard > (heard[n] ?? 0) + 1)).toBe(true), patient);
    const lostMs = performance.now();
    await stack.controlPlane.kill9();
    await wait(awayMs);
    stack.controlPlane.start();
    await vi.waitFor(async () => expect((await fetch(`${stack.url}/readyz`)).status).toBe(200), patient);
    const readyMs = performance.now();
    const isBack = ({ isConnected, welcomedMs }: AgentFleet["agents"][number]) =>
      isConnected && (welcomedMs.at(-1) ?? 0) > lostMs;
    await vi.waitFor(() => expect(fleet.agents.filter(isBack)).toHaveLength(size), {
      timeout: backWithinMs,
      interval: 50,
    });
    const welcomed = fleet.agents.map((one) => one.welcomedMs.at(-1) ?? 0);
    expect(Math.max(...welcomed) - readyMs).toBeLessThan(backWithinMs);
    // A machine that stands still makes agents late and never early: the first second is theirs alone.
    const tried = fleet.agents.flatMap((one) => one.triedMs);
    expect(within(tried, lostMs)).toBeLessThanOrEqual(maxPerSecond);
    // When each began the attempt that was welcomed: a loaded machine welcomes together who came apart.
    const came = fleet.agents.map((one) => one.triedMs.at(-1) ?? 0);
    const fullest = Math.max(...came.map((atMs) => within(came, atMs)));
    expect(fullest).toBeLessThanOrEqual(maxPerSecond);
  },
  600_000,
);
