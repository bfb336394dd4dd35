// From the release before to this one under load, as docs/operations/control-planes.md says: control planes one after the other, then the agents.
// Two versions of the control plane run on one database, and new ones with old agents. Then back to that release by a backup that it made.
import { execFile, execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { startTinyStack } from "../../chaos/tiny-stack.ts";
import { postgresPrograms } from "../../fakes/postgres-programs.ts";
import type { ControlPlane, Stack } from "../../fakes/processes.ts";
import { programs } from "../../fakes/programs.ts";
import beforeTheFirst from "../../fixtures/before-the-first-release.json" with { type: "json" };
import { ledgerFacts, query } from "../spine/database.ts";

const root = join(import.meta.dirname, "../../..");
const patient = { timeout: 120_000, interval: 200 };
const callers = 4;
const previous = lastRelease();
const tools = await postgresPrograms("the way back to a release by its backup");

/** By its tag, of those before this commit: a release is not upgraded from itself. */
function lastRelease(): { readonly version: string; readonly commit: string } {
  try {
    const args = ["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^"];
    const tag = execFileSync("git", args, { cwd: root, encoding: "utf8", stdio: "pipe" }).trim();
    return { version: tag.slice(1), commit: tag };
  } catch {
    return beforeTheFirst;
  }
}

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
  const sources = old ?? "";
  const oldPrograms = { controlPlane: join(sources, "control-plane/main.ts"), agent: join(sources, "agent/main.ts") };

  beforeAll(async () => {
    ({ stack, model } = await startTinyStack({ replicas: 2, programs: oldPrograms }));
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

  /** `backup.ts` of the old release. */
  const backup = (args: readonly string[], env: Readonly<Record<string, string>>) =>
    promisify(execFile)(
      process.execPath,
      [
        join(sources, "control-plane/backup.ts"),
        ...args,
        ...["--dir", join(stack.folder, "backups"), "--passphrase-file", join(stack.folder, "passphrase")],
      ],
      { env: { ...process.env, STOKER_PG_BIN: tools ?? "", ...env } },
    );
  /** Each attempt of a request that was charged, with its charge in nano-USD. The time of GPUs is not brought by agents. */
  const chargesIn = async (databaseUrl: string) => {
    const rows = await query<{ text: string }>(
      databaseUrl,
      "select concat_ws(' ', request_id, attempt, source, end_reason, charge) as text from usage where not voided and gpu_ms = 0",
    );
    return new Set(rows.map(({ text }) => text));
  };

  it("loses no request while control planes of both releases serve", async () => {
    await serves(20);
    if (tools) {
      writeFileSync(join(stack.folder, "passphrase"), "correct horse battery staple");
      await backup(["create"], { DATABASE_URL: stack.databaseUrl, STOKER_SECRETS_DIR: stack.secretsDir });
    }
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

  it.runIf(tools)(
    "goes back by the backup of before the upgrade, to which agents bring the usage since",
    async () => {
      for (const part of [...stack.controlPlanes, ...stack.agents]) expect(await part.stop()).toBe(0);
      const restored = {
        DATABASE_URL: await stack.postgres.createDatabase(),
        STOKER_SECRETS_DIR: join(stack.folder, "restored-secrets"),
      };
      const charges = await chargesIn(stack.databaseUrl);
      const [file = ""] = readdirSync(join(stack.folder, "backups")).filter((name) => name.endsWith(".stoker-backup"));
      await backup(["restore", file], restored);
      for (const one of stack.controlPlanes) {
        one.start(restored, oldPrograms.controlPlane);
        await vi.waitFor(async () => expect((await fetch(`${one.url}/readyz`)).status).toBe(200), patient);
      }
      for (const agent of stack.agents) agent.start({}, oldPrograms.agent);
      await vi.waitFor(async () => {
        const now = await chargesIn(restored.DATABASE_URL);
        expect({ missing: charges.difference(now), added: now.difference(charges) }).toEqual({
          missing: new Set(),
          added: new Set(),
        });
      }, patient);
      expect(await ledgerFacts(restored.DATABASE_URL)).toMatchObject({ sum: 0, overspent: 0 });
      // Both hosts serve what the backup says, without an operator.
      await vi.waitFor(async () => {
        await askOnce(stack.controlPlanes);
        expect(failures.splice(0)).toEqual([]);
      }, patient);
    },
    300_000,
  );
});
