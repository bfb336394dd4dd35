// F9: the wall clocks of agent and control plane are stepped by an hour, each way and each by itself, while requests stream.
// None may be refused or cut; bills and live hosts must not change. PostgreSQL's own clock stays.
import { globSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { query } from "../e2e/spine/database.ts";
import { type ExternalStack, startExternalStack } from "../fakes/external-stack.ts";

const patient = { timeout: 60_000, interval: 50 };
const hourS = 3_600;
const outputTokens = 3;
const hours = [1, 0, -1, 1, 0];
const clocks = {
  agent: join(tmpdir(), `stoker-clock-a-${process.pid}`),
  control: join(tmpdir(), `stoker-clock-c-${process.pid}`),
};
const [faketime] = globSync("/usr/lib/*/faketime/libfaketimeMT.so.1");
if (!faketime) console.warn("NOT PROVEN here without libfaketime: clock steps below JavaScript (TLS, timers of Node)");
let world: ExternalStack;

const step = (whose: keyof typeof clocks, seconds: number) =>
  writeFileSync(clocks[whose], faketime ? `${seconds < 0 ? "" : "+"}${seconds}s` : String(seconds * 1_000));
const env = (whose: keyof typeof clocks): Record<string, string> =>
  faketime
    ? {
        LD_PRELOAD: faketime,
        FAKETIME_TIMESTAMP_FILE: clocks[whose],
        FAKETIME_CACHE_DURATION: "1",
        FAKETIME_DONT_FAKE_MONOTONIC: "1",
        DONT_FAKE_MONOTONIC: "1",
      }
    : {
        NODE_OPTIONS: `--import=${pathToFileURL(join(import.meta.dirname, "../fakes/stepped-clock.ts"))}`,
        STOKER_TEST_CLOCK_FILE: clocks[whose],
      };
beforeAll(async () => {
  step("agent", 0);
  step("control", 0);
  world = await startExternalStack({
    isDatabaseOnDisk: true,
    controlPlaneEnv: env("control"),
    agentEnv: env("agent"),
    engine: { tokenMs: 20 },
  });
}, 120_000);
afterAll(async () => {
  await world?.stop();
  for (const file of Object.values(clocks)) rmSync(file, { force: true });
});

/** One streamed request; its status, and whether the stream was whole. */
const ask = async () => {
  const response = await fetch(`${world.stack.url}/v1/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${world.stack.apiKey}`, "content-type": "application/json" },
    body: JSON.stringify({ model: world.model, prompt: "hello", max_tokens: outputTokens, stream: true }),
  });
  const text = await response.text();
  return response.status === 200 && text.includes("data: [DONE]") ? 200 : `${response.status} ${text.slice(-200)}`;
};
const usage = () =>
  query<{ id: string; tokens: number; charge: number; ms: number }>(
    world.stack.databaseUrl,
    `select request_id as id, output_tokens::int as tokens, charge::float8 as charge,
       extract(epoch from ended_at - admitted_at)::float8 * 1000 as ms from usage where output_tokens = ${outputTokens}`,
  );

let served = 0;
/** Requests over more than one renewal of the agent's lease, the clock being stepped under the first of them. */
async function askWhile(stepClock: () => void): Promise<void> {
  const results: (string | number)[] = [];
  const running = [ask(), ask()];
  stepClock();
  results.push(...(await Promise.all(running)));
  const startedMs = performance.now();
  while (performance.now() - startedMs < 8_000) results.push(await ask());
  served += results.length;
  expect(new Set(results)).toEqual(new Set([200]));
}
const begun = () => world.stack.controlPlane.log().split("agent session started").length - 1;

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

it.each(["agent", "control"] as const)(
  "refuses, cuts and misbills no request when the clock of the %s steps",
  async (whose) => {
    for (const hour of hours) await askWhile(() => step(whose, hour * hourS));
    await isUnharmed();
  },
  180_000,
);

it("keeps scoped tokens and keys valid while the control plane's clock steps", async () => {
  const [key] = (await world.stack.call("GET", "/v1/api-tokens")).body;
  const made = await world.stack.call("POST", "/v1/scoped-jwt", {
    api_key_name: key.name,
    models: [world.model],
    expires_delta: 60,
  });
  expect(made.status, JSON.stringify(made.body)).toBe(200);
  const headers = { authorization: `Bearer ${made.body.token}` };
  const body = { model: world.model, prompt: "hello", max_tokens: 1 };
  const startedMs = Date.now();
  for (const hours of [1, -1, 0]) {
    step("control", hours * hourS);
    // Longer than libfaketime keeps what it read.
    await wait(1_200);
    const { status, body: answer } = await world.stack.call("POST", "/v1/completions", body, headers);
    expect(status, JSON.stringify(answer)).toBe(200);
  }
  // The process did see the steps.
  const times = world.stack.controlPlane
    .log()
    .matchAll(/"time":(\d+)/g)
    .map(([, time]) => Number(time) - startedMs)
    .toArray();
  expect(Math.max(...times)).toBeGreaterThan(3_000_000);
  expect(Math.min(...times)).toBeLessThan(-3_000_000);
}, 60_000);
