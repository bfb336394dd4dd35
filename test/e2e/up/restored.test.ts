// A backup of an installation of `up` comes back on its own PostgreSQL, and on that of a new data folder.
import { execFile } from "node:child_process";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { freePort } from "../../fakes/free-port.ts";
import { postgresPrograms } from "../../fakes/postgres-programs.ts";
import { clearUp, newDataDir, root, startUp, type Up } from "./start-up.ts";

const programs = await postgresPrograms("backup and restore of an installation of up");
const flags = ["--model", "none", "--driver", "process"];
/** Each try starts a process. */
const restoreLimit = { timeout: 90_000, interval: 3_000 };

describe.runIf(programs)("stoker admin backup restore on the PostgreSQL of up", () => {
  const [first, second] = [newDataDir(), newDataDir()];
  const ups: Up[] = [];
  let port: number;
  beforeAll(async () => {
    port = await freePort();
  });
  afterAll(async () => {
    for (const up of [first, second].map((folder) => ups.findLast((one) => one.dataDir === folder)))
      if (up) await clearUp(up);
  });

  async function start(dataDir: string, ...more: readonly string[]): Promise<Up> {
    const up = startUp(dataDir, port, [...flags, ...more]);
    ups.push(up);
    await up.ready();
    return up;
  }
  async function stop(up: Up): Promise<void> {
    const down = [join(root, "cli/main.ts"), "down", "--data", up.dataDir];
    const { stdout } = await promisify(execFile)(process.execPath, down);
    expect(stdout).toBe(`Stopped. Data and models stay in ${up.dataDir}.\n`);
    expect(await up.ended(), up.output()).toBe(0);
  }
  const backup = async (dataDir: string, ...args: readonly string[]) => {
    const file = join(first, "passphrase");
    const all = ["admin", "backup", ...args, "--data", dataDir, "--passphrase-file", file];
    const env = { ...process.env, STOKER_PG_BIN: programs ?? "" };
    return (await promisify(execFile)(process.execPath, [join(root, "cli/main.ts"), ...all], { env })).stdout;
  };
  const keys = async (up: Up): Promise<readonly string[]> => {
    const headers = { authorization: `Bearer ${up.key()}` };
    const response = await fetch(`${up.url}/v1/api-tokens`, { headers, signal: AbortSignal.timeout(10_000) });
    expect(response.status).toBe(200);
    return ((await response.json()) as { name: string }[]).map(({ name }) => name);
  };
  const makeKey = async (up: Up, name: string): Promise<void> => {
    const response = await fetch(`${up.url}/v1/api-tokens`, {
      method: "POST",
      headers: { authorization: `Bearer ${up.key()}`, "content-type": "application/json" },
      body: JSON.stringify({ name }),
      signal: AbortSignal.timeout(10_000),
    });
    expect(response.status, await response.text()).toBeLessThan(300);
  };

  it("replaces the database in place, and brings the installation back in a new data folder", async () => {
    let up = await start(first);
    writeFileSync(join(first, "passphrase"), "correct horse battery staple");
    await makeKey(up, "before");
    await backup(first, "create");
    const [file = ""] = readdirSync(join(first, "backups")).filter((name) => name.endsWith(".stoker-backup"));
    await makeKey(up, "after");
    expect(await keys(up)).toEqual(expect.arrayContaining(["before", "after"]));
    const key = up.key();
    await expect(backup(first, "restore", file)).rejects.toThrow(/is not empty\. /);
    await expect(backup(first, "restore", file, "--replace")).rejects.toThrow(/A control plane used this database/);
    await stop(up);

    up = await start(first, "--only-database");
    expect(up.children().map(({ name }) => name)).toEqual(["postgres"]);
    // The control plane counts as running for 30 s after its last sign of life.
    const restored = await vi.waitFor(() => backup(first, "restore", file, "--replace"), restoreLimit);
    expect(restored).toMatch(/^Restored the state of /);
    await stop(up);
    up = await start(first);
    expect(await keys(up)).toContain("before");
    expect(await keys(up)).not.toContain("after");
    await stop(up);

    up = await start(second, "--only-database");
    expect(await backup(second, "restore", join(first, "backups", file))).toMatch(/^Restored the state of /);
    await stop(up);
    up = await start(second);
    expect(up.key()).toBe(key);
    expect(await keys(up)).toContain("before");
    await stop(up);
  }, 400_000);
});
