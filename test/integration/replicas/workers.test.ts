// One control plane of two worker processes on one port, one agent, the engine fake.
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type ExternalStack, startExternalStack } from "../../fakes/external-stack.ts";
import { isNightly } from "../../fakes/nightly.ts";
import { isAlive } from "../../fakes/processes.ts";

const patient = { timeout: 60_000, interval: 100 };
let world: ExternalStack;

beforeAll(async () => {
  world = await startExternalStack({ controlPlaneEnv: { STOKER_WORKERS: "2" } });
});
afterAll(() => world?.stop());

const parent = () => world.stack.controlPlane.pid;
const workers = (): readonly number[] =>
  readFileSync(`/proc/${parent()}/task/${parent()}/children`, "utf8").trim().split(" ").filter(Boolean).map(Number);

/** On a connection of its own, which the kernel gives to either worker. */
async function ask(key = world.stack.apiKey): Promise<number> {
  const response = await fetch(`${world.stack.url}/v1/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json", connection: "close" },
    body: JSON.stringify({ model: world.model, prompt: "hello", max_tokens: 1 }),
  });
  await response.text();
  return response.status;
}

/** Sums of a metric's series by worker. */
async function byWorker(metric: string): Promise<ReadonlyMap<string, number>> {
  const { admin } = JSON.parse(readFileSync(world.stack.controlPlane.portsFile, "utf8"));
  const text = await (await fetch(`http://127.0.0.1:${admin}/metrics`)).text();
  const sums = new Map<string, number>();
  for (const [, worker = "", value] of text.matchAll(
    new RegExp(`^${metric}\\{[^}]*worker="(\\d+)"[^}]*\\} (\\S+)$`, "gm"),
  ))
    sums.set(worker, (sums.get(worker) ?? 0) + Number(value));
  return sums;
}

describe("a control plane of two workers", () => {
  it("answers requests from both, and shows the metrics of both on one page", async () => {
    await vi.waitFor(async () => {
      expect(await ask()).toBe(200);
      const requests = await byWorker("http_request_duration_seconds_count");
      expect(
        [...requests]
          .filter(([, count]) => count > 0)
          .map(([worker]) => worker)
          .toSorted(),
      ).toEqual(["1", "2"]);
    }, patient);
    expect((await byWorker("process_resident_memory_bytes")).size).toBe(2);
  });

  it("enforces the rate limit of a key across both", async () => {
    const limit = 120;
    const { status: created, body } = await world.stack.call("POST", "/v1/api-tokens", {
      name: "limited",
      requests_per_minute: limit,
    });
    expect(created, JSON.stringify(body)).toBe(200);
    const statuses = new Map<number, number>();
    // Either worker alone would answer all of its half.
    for (let sent = 0; sent < 1.6 * limit; sent++) {
      const status = await ask(body.token);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
    expect(statuses.get(200)).toBeGreaterThanOrEqual(limit);
    expect(statuses.get(429)).toBeGreaterThan(0);
    expect([...statuses.keys()].toSorted()).toEqual([200, 429]);
  });

  it("never spends more than an account has", async () => {
    const { body: account } = await world.stack.call("POST", "/v1/admin/accounts", {
      email: "poor@example.com",
      display_name: "poor",
      credit_usd: 0.002,
    });
    const answered = await Promise.all(Array.from({ length: 200 }, () => ask(account.api_key)));
    // A token costs 0.00002 USD.
    expect(answered.filter((status) => status === 200).length).toBeLessThanOrEqual(100);
    expect(answered).toContain(402);
  });

  it("serves again soon after a worker was killed, and starts it again", async () => {
    const before = workers();
    expect(before).toHaveLength(2);
    // At night both, one after the other.
    const victims = isNightly ? before : before.slice(0, 1);
    for (const victim of victims) {
      process.kill(victim, "SIGKILL");
      await vi.waitFor(() => expect(isAlive(victim)).toBe(false), patient);
      await vi.waitFor(async () => {
        expect(workers()).toHaveLength(2);
        expect((await byWorker("process_resident_memory_bytes")).size).toBe(2);
        expect(await Promise.all(Array.from({ length: 8 }, () => ask()))).toEqual(Array(8).fill(200));
      }, patient);
    }
    expect(workers().filter((pid) => victims.includes(pid))).toEqual([]);
  });

  // Half a minute of waiting.
  it("replaces a worker that stands still", { timeout: 180_000 }, async () => {
    const [still = 0] = workers();
    process.kill(still, "SIGSTOP");
    await vi.waitFor(() => expect(isAlive(still)).toBe(false), { timeout: 90_000, interval: 200 });
    await vi.waitFor(async () => {
      expect((await byWorker("process_resident_memory_bytes")).size).toBe(2);
      expect(await Promise.all(Array.from({ length: 8 }, () => ask()))).toEqual(Array(8).fill(200));
    }, patient);
  });

  it("stops its workers when it is killed, and serves again after its next start", async () => {
    const before = workers();
    await world.stack.controlPlane.kill9();
    await vi.waitFor(() => expect(before.filter(isAlive)).toEqual([]), patient);
    world.stack.controlPlane.start();
    await vi.waitFor(async () => {
      expect(await ask()).toBe(200);
      expect((await byWorker("process_resident_memory_bytes")).size).toBe(2);
    }, patient);
  });

  it("stops in order where a service manager signals every process", async () => {
    const both = workers();
    const all = [parent(), ...both];
    for (const pid of all) process.kill(pid, "SIGTERM");
    await vi.waitFor(() => expect(all.filter(isAlive)).toEqual([]), patient);
    const stopped = () =>
      [...world.stack.controlPlane.log().matchAll(/"pid":(\d+),.*"msg":"control plane stopped"/g)].map(([, pid]) =>
        Number(pid),
      );
    expect(both).toHaveLength(2);
    // Its file is written after the processes have ended.
    await vi.waitFor(() => expect(stopped()).toEqual(expect.arrayContaining([...both])), patient);
  });

  it.runIf(isNightly)("stops all workers with their parent on SIGTERM, and exits with 0", async () => {
    world.stack.controlPlane.start();
    await vi.waitFor(async () => {
      expect(await ask()).toBe(200);
      expect((await byWorker("process_resident_memory_bytes")).size).toBe(2);
    }, patient);
    const before = workers();
    expect(await world.stack.controlPlane.stop()).toBe(0);
    await vi.waitFor(() => expect(before.filter(isAlive)).toEqual([]), patient);
  });
});
