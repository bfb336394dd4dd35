// P6 with real sessions over mutual TLS. At night 200 agents against a control plane process that is killed, at every change 32
// against one in this process that ends; the arithmetic of 200 stands in test/unit/agent/session/herd.test.ts.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { type AgentFleet, startAgentFleet } from "../../fakes/agent-fleet.ts";
import { isNightly, longer } from "../../fakes/nightly.ts";
import { startPostgres } from "../../fakes/postgres.ts";
import { startStack } from "../../fakes/processes.ts";
import { startReplica } from "./replica.ts";

const size = longer(32, 200);
/** 15 percent of two hundred; of thirty-two nearly all, but they come back as many a second. */
const maxPerSecond = 30;
const patient = { timeout: 120_000, interval: 50 };
/** Of P6. A machine that is shared may take longer for the handshakes alone. */
const backWithinMs = longer(150_000, 60_000);

interface ControlPlane {
  readonly address: string;
  readonly token: string;
  end(): Promise<void>;
  /** Returns when it takes sessions. */
  begin(): Promise<void>;
  close(): Promise<void>;
}
let plane: ControlPlane;
let fleet: AgentFleet;

beforeAll(async () => {
  plane = await (isNightly ? ofItsOwnProcess() : inThisProcess());
  fleet = await startAgentFleet(size, plane.address, plane.token);
}, 600_000);
afterAll(async () => {
  await fleet?.stop();
  await plane?.close();
});

async function inThisProcess(): Promise<ControlPlane> {
  const postgres = await startPostgres();
  const url = await postgres.migratedDatabase();
  let replica = await startReplica(url, { renewEveryMs: 500 });
  const { address, port, joinToken } = replica;
  return {
    address,
    token: joinToken,
    end: () => replica.stop(),
    async begin() {
      replica = await startReplica(url, { renewEveryMs: 500, port });
    },
    async close() {
      await replica.stop();
      await postgres.stop();
    },
  };
}

async function ofItsOwnProcess(): Promise<ControlPlane> {
  const stack = await startStack({ agents: 0 });
  const { rpc } = JSON.parse(readFileSync(join(stack.folder, "control-plane.json"), "utf8"));
  const isReady = async () => expect((await fetch(`${stack.url}/readyz`)).status).toBe(200);
  return {
    address: `127.0.0.1:${rpc}`,
    token: readFileSync(join(stack.folder, "secrets", "agent.token"), "utf8").trim(),
    end: () => stack.controlPlane.kill9(),
    async begin() {
      stack.controlPlane.start();
      await vi.waitFor(isReady, patient);
    },
    close: stack.stop,
  };
}

const within = (times: readonly number[], fromMs: number) =>
  times.filter((at) => at >= fromMs && at < fromMs + 1_000).length;

it.each(longer([0], [0, 4_000, 45_000]))(
  "agents that lose their control plane for %i ms or more do not reconnect together, but all in time",
  async (awayMs) => {
    await vi.waitFor(() => expect(fleet.agents.filter((one) => one.isConnected)).toHaveLength(size), patient);
    // Of the size of the whole fleet they hear at their renewals.
    const heard = fleet.agents.map((one) => one.heard);
    await vi.waitFor(() => expect(fleet.agents.every((one, n) => one.heard > (heard[n] ?? 0) + 1)).toBe(true), patient);
    const lostMs = performance.now();
    await plane.end();
    await wait(awayMs);
    await plane.begin();
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
    if (isNightly) expect(fullest).toBeLessThanOrEqual(maxPerSecond);
  },
  600_000,
);
