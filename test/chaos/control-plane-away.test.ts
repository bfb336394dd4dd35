// P5: three minutes without a control plane, longer than a lost host keeps its instances.
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { ledgerFacts, query, usageRows } from "../e2e/spine/database.ts";
import { mayBeSlow, watchPages } from "../fakes/page-times.ts";
import { instancePids, isAlive, type Stack } from "../fakes/processes.ts";
import { issueTickets } from "./issued-tickets.ts";
import { startTinyStack } from "./tiny-stack.ts";

let stack: Stack;
let model: string;
const awayMs = 180_000;
/** Longer than a lost host keeps its instances. */
const afterMs = 120_000;

beforeAll(async () => {
  ({ stack, model } = await startTinyStack());
});
afterAll(() => stack?.stop());

const patient = { timeout: 30_000, interval: 100 };
const pids = () => [1, 2].flatMap((n) => instancePids(stack.agentFolder(n)));
const placed = () =>
  query(stack.databaseUrl, "select instance_id, host_id, generation, identity from instance order by instance_id");
const ask = async () =>
  (await stack.call("POST", "/v1/completions", { model, prompt: "hello", max_tokens: 4 }).catch(() => undefined))
    ?.status;

/** Of all agents: records nobody has acknowledged, and whether each has a session. */
async function atAgents(pages: readonly string[]): Promise<{ records: number; connected: number }> {
  const texts = await Promise.all(pages.map(async (url) => (await fetch(url)).text()));
  const sum = (name: string) =>
    texts.reduce((total, text) => total + Number(new RegExp(`^${name} (\\d+)$`, "m").exec(text)?.[1]), 0);
  return { records: sum("stoker_agent_spool_records"), connected: sum("stoker_agent_control_connected") };
}

it("moves and restarts nothing while the control plane is down for longer than a lost host keeps its instances; what it had admitted is served, and billed once it is back", async () => {
  const before = { pids: pids(), placed: await placed() };
  expect(before.pids).toHaveLength(2);
  const agents = [1, 2].map((n) => JSON.parse(readFileSync(join(stack.agentFolder(n), "agent.json"), "utf8")));
  const pages = agents.map(({ metrics_port }) => `http://127.0.0.1:${metrics_port}/metrics`);
  await vi.waitFor(async () => expect(await ask()).toBe(200), patient);
  await vi.waitFor(async () => expect(await usageRows(stack.databaseUrl)).not.toEqual([]), patient);
  await vi.waitFor(async () => expect(await atAgents(pages)).toEqual({ records: 0, connected: 2 }), patient);
  const issued = await issueTickets(stack, join(stack.folder, "secrets"), 8);
  // P22: the agents' metrics pages are asked for every second all along.
  const stopWatching = watchPages(pages);
  await stack.controlPlane.kill9();
  const served = await Promise.all(issued.map((ticket) => ticket.redeem()));
  for (const { status, text } of served) {
    expect(status, text).toBe(200);
    expect(text).toContain("tiny words");
  }
  await vi.waitFor(async () => {
    const { records, connected } = await atAgents(pages);
    expect(connected).toBe(0);
    // A minute of GPU time that ends now is a record as well.
    expect(records).toBeGreaterThanOrEqual(issued.length);
  }, patient);
  // `stoker inspect` on the host still works.
  const inspect = [join(import.meta.dirname, "../../cli/main.ts"), "inspect", "--data", stack.agentFolder(1)];
  const { stdout: seen } = await promisify(execFile)(process.execPath, inspect, { timeout: 60_000 });
  expect(seen).toContain("NOT connected; requests are still served, usage is kept");
  expect(seen).toMatch(/^Instances\n {2}\S+ +ready /m);
  await wait(awayMs);
  const startedMs = performance.now();
  stack.controlPlane.start();
  // P6 bounds how long agents may take to come back, P5 how long their records may wait from there on.
  await vi.waitFor(async () => expect((await atAgents(pages)).connected).toBe(2), { timeout: 180_000, interval: 50 });
  const backMs = performance.now();
  await vi.waitFor(async () => expect((await atAgents(pages)).records).toBe(0), patient);
  process.stdout.write(
    `the records of the absence were told ${Math.round(performance.now() - backMs)} ms after the agents were back, which was ${Math.round(backMs - startedMs)} ms after the control plane was started\n`,
  );
  const rows = await usageRows(stack.databaseUrl);
  for (const { requestId } of issued)
    expect(rows.filter((row) => row.request_id === requestId)).toMatchObject([
      { attempt: 1, input_tokens: 3, output_tokens: 2, charge: 70_000, voided: false },
    ]);
  expect(await ledgerFacts(stack.databaseUrl)).toEqual({ sum: 0, overspent: 0, capturesPerRequest: 1 });
  await vi.waitFor(async () => expect(await ask()).toBe(200), { timeout: 60_000, interval: 200 });
  await wait(afterMs);
  for (const { url, missed, times } of await stopWatching()) {
    expect(missed, url).toBe(0);
    expect(times.all, url).toBeGreaterThan((awayMs + afterMs) / 2_000);
    expect(times.all - times.quick, `${url}: ${JSON.stringify(times)}`).toBeLessThanOrEqual(mayBeSlow(times));
  }
  expect({ pids: pids(), placed: await placed() }).toEqual(before);
  expect(before.pids.every(isAlive)).toBe(true);
  expect(await ask()).toBe(200);
}, 600_000);
