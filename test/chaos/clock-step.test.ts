// F9: the wall clocks of agent and control plane are stepped by an hour, each way and each by itself, under requests. What
// they bill and who is alive must not change; PostgreSQL's own clock stays.
import { rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { query } from "../e2e/spine/database.ts";
import { type ExternalStack, startExternalStack } from "../fakes/external-stack.ts";
import { longer } from "../fakes/nightly.ts";

const patient = { timeout: 30_000, interval: 100 };
const hourMs = 3_600_000;
const outputTokens = 3;
/** Of the host clocks' real values: a renewal every 2.5 s here. */
const scale = longer(0.5, 1);
const clocks = {
  agent: join(tmpdir(), `stoker-clock-a-${process.pid}`),
  control: join(tmpdir(), `stoker-clock-c-${process.pid}`),
};
let world: ExternalStack;

const step = (whose: keyof typeof clocks, ms: number) => writeFileSync(clocks[whose], String(ms));
const env = (whose: keyof typeof clocks) => ({
  NODE_OPTIONS: `--import=${pathToFileURL(join(import.meta.dirname, "../fakes/stepped-clock.ts"))}`,
  STOKER_TEST_CLOCK_FILE: clocks[whose],
});
beforeAll(async () => {
  step("agent", 0);
  step("control", 0);
  world = await startExternalStack({
    controlPlaneEnv: { ...env("control"), STOKER_HOST_CLOCKS: String(scale) },
    agentEnv: env("agent"),
  });
}, 120_000);
afterAll(async () => {
  await world?.stop();
  for (const file of Object.values(clocks)) rmSync(file, { force: true });
});

const ask = async () => {
  const body = { model: world.model, prompt: "hello", max_tokens: outputTokens };
  return (await world.stack.call("POST", "/v1/completions", body)).status;
};
const usage = () =>
  query<{ id: string; tokens: number; charge: number; ms: number }>(
    world.stack.databaseUrl,
    `select request_id as id, output_tokens::int as tokens, charge::float8 as charge,
       extract(epoch from ended_at - admitted_at)::float8 * 1000 as ms from usage where output_tokens = ${outputTokens}`,
  );

let served = 0;
/** Statuses of requests over more than one renewal of the agent's lease, at which it hears the time. */
async function asked(): Promise<number[]> {
  const statuses: number[] = [];
  await vi.waitFor(async () => {
    statuses.push(await ask());
    expect(statuses.length).toBeGreaterThan(60 * scale);
  }, patient);
  served += statuses.filter((status) => status === 200).length;
  return statuses;
}
const begun = () => world.stack.controlPlane.log().split("agent session began").length - 1;

async function isUnharmed(): Promise<void> {
  await vi.waitFor(async () => expect(await usage()).toHaveLength(served), patient);
  const rows = await usage();
  expect(new Set(rows.map((row) => row.id)).size).toBe(served);
  expect(new Set(rows.map((row) => row.charge))).toEqual(new Set([60_000]));
  expect(rows.filter((row) => row.ms < 0 || row.ms > 60_000)).toEqual([]);
  // A proof of the data path that was under way while the clock moved is made anew.
  const states = async () => (await world.stack.call("GET", "/v1/admin/nodes")).body.nodes;
  await vi.waitFor(async () => expect(await states()).toMatchObject([{ state: "ready" }]), {
    timeout: 60_000,
    interval: 250,
  });
  expect(begun()).toBe(1);
}

it("no request is lost, billed twice or billed otherwise when the agent's clock goes an hour ahead, and two back", async () => {
  for (const ms of [hourMs, -hourMs, 0]) {
    step("agent", ms);
    expect(new Set(await asked())).toEqual(new Set([200]));
  }
  await isUnharmed();
}, 90_000);

it("nor when the control plane's goes ahead; back, its tickets open nothing until the agent hears the time at its next renewal", async () => {
  step("control", hourMs);
  expect(new Set(await asked())).toEqual(new Set([200]));
  for (const ms of [0, -hourMs]) {
    step("control", ms);
    const statuses = await asked();
    expect(statuses.at(-1)).toBe(200);
    expect(statuses.slice(statuses.lastIndexOf(503) + 1).length).toBeGreaterThan(5);
    for (const status of statuses) expect([200, 503]).toContain(status);
  }
  await isUnharmed();
}, 90_000);
