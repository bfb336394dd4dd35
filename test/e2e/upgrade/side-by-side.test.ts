// From the release before to this one under load, as docs/operations/control-planes.md says: control planes one after the other, then the agents.
// Two versions of the control plane run on one database, and new ones with old agents.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { startTinyStack } from "../../chaos/tiny-stack.ts";
import type { ControlPlane, Stack } from "../../fakes/processes.ts";
import { programs } from "../../fakes/programs.ts";
import previous from "../../fixtures/previous-release.json" with { type: "json" };

const root = join(import.meta.dirname, "../../..");
const patient = { timeout: 120_000, interval: 200 };
const callers = 4;

/** Sources of that release, which run with this release's packages. Undefined: the repository has no history. */
function sourcesOf(commit: string): string | undefined {
  const folder = mkdtempSync(join(tmpdir(), "stoker-release-"));
  try {
    const files = execFileSync("git", ["archive", commit], { cwd: root, maxBuffer: 512 * 1024 ** 2, stdio: "pipe" });
    execFileSync("tar", ["-x", "-C", folder], { input: files });
  } catch {
    rmSync(folder, { recursive: true, force: true });
    return undefined;
  }
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  mkdirSync(join(folder, ".cache"), { recursive: true });
  return folder;
}

const old = sourcesOf(previous.commit);
if (old === undefined)
  console.warn(
    `\n*** NOT PROVEN: the upgrade from ${previous.version}. Commit ${previous.commit} is not in this repository.\n`,
  );

describe.skipIf(old === undefined)(`an upgrade from ${previous.version}`, () => {
  let stack: Stack;
  let model: string;
  /** Control planes that the load balancer sends requests to. */
  let inUse: readonly ControlPlane[] = [];
  const failures: string[] = [];
  const answered = new Map<string, number>();
  const ending = new AbortController();
  let load: Promise<unknown>;

  beforeAll(async () => {
    const sources = old as string;
    ({ stack, model } = await startTinyStack({
      replicas: 2,
      programs: { controlPlane: join(sources, "control-plane/main.ts"), agent: join(sources, "agent/main.ts") },
    }));
    inUse = stack.controlPlanes;
    load = Promise.all(Array.from({ length: callers }, (_, caller) => keepAsking(caller)));
  }, 300_000);
  afterAll(async () => {
    ending.abort();
    await load;
    await stack?.stop();
    if (old) rmSync(old, { recursive: true, force: true });
  });

  /** A request goes to the next control plane where the first refuses the connection: it was not begun. */
  async function askOnce(at: readonly ControlPlane[]): Promise<void> {
    for (const [tried, one] of at.entries()) {
      try {
        const { status, body } = await stack.call(
          "POST",
          "/v1/completions",
          { model, prompt: "hello", max_tokens: 4 },
          {},
          one,
        );
        if (status !== 200) failures.push(`${status} ${JSON.stringify(body)}`);
        answered.set(one.url, (answered.get(one.url) ?? 0) + 1);
        return;
      } catch (error) {
        const { code } = (error as { cause?: { code?: string } }).cause ?? {};
        if (code !== "ECONNREFUSED" || tried === at.length - 1) {
          failures.push(`${code} ${(error as Error).message}`);
          return;
        }
      }
    }
  }

  async function keepAsking(caller: number): Promise<void> {
    for (let turn = caller; !ending.signal.aborted; turn += 1) {
      const first = turn % inUse.length;
      await askOnce([...inUse.slice(first), ...inUse.slice(0, first)]);
    }
  }

  /** Requests answered by all since now reach `count`. */
  async function serves(count: number): Promise<void> {
    const before = new Map(answered);
    await vi.waitFor(() => {
      for (const { url } of inUse) expect((answered.get(url) ?? 0) - (before.get(url) ?? 0)).toBeGreaterThan(count);
    }, patient);
  }

  it("loses no request while control planes of both releases serve", async () => {
    await serves(20);
    for (const one of stack.controlPlanes) {
      inUse = stack.controlPlanes.filter((other) => other !== one);
      expect(await one.stop()).toBe(0);
      one.start({}, programs.controlPlane);
      await vi.waitFor(async () => expect((await fetch(`${one.url}/readyz`)).status).toBe(200), patient);
      inUse = stack.controlPlanes;
      await serves(20);
    }
    expect(failures).toEqual([]);
  }, 300_000);

  it("loses no request while agents follow, whose instances go on", async () => {
    for (const agent of stack.agents) {
      expect(await agent.stop()).toBe(0);
      agent.start({}, programs.agent);
      await vi.waitFor(async () => {
        const { body } = await stack.call("GET", "/v1/admin/nodes");
        expect(body.nodes.map(({ state }: { state: string }) => state)).toEqual(["ready", "ready"]);
      }, patient);
      await serves(20);
    }
    expect(failures).toEqual([]);
  }, 300_000);

  it("bills each answered request once", async () => {
    ending.abort();
    await load;
    const sent = [...answered.values()].reduce((sum, one) => sum + one, 0);
    const from = Math.floor(Date.now() / 1000) - 3_600;
    await vi.waitFor(async () => {
      const { body } = await stack.call(
        "GET",
        `/v1/usage/days?by=model&from=${new Date(from * 1000).toISOString().slice(0, 10)}`,
      );
      const billed = body.days.flatMap(({ items }: { items: { requests: number }[] }) => items);
      expect(billed.reduce((sum: number, { requests }: { requests: number }) => sum + requests, 0)).toBe(sent);
    }, patient);
  }, 150_000);
});
