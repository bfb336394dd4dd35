// `up` without a model: what it starts, what it refuses, and that it leaves nothing behind.
import { execFile } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { isAlive } from "../../../agent/process/process-identity.ts";
import { freePort } from "../../fakes/free-port.ts";
import { clearUp, newDataDir, root, startUp, stateHome, type Up } from "./start-up.ts";

const run = promisify(execFile);
const flags = ["--model", "none", "--driver", "process"];
const patient = { timeout: 60_000, interval: 200 };

describe("up --model none", () => {
  const dataDir = newDataDir();
  let port: number;
  let up: Up;
  let firstOutput = "";

  beforeAll(async () => {
    port = await freePort();
    up = startUp(dataDir, port, flags);
    await up.ready();
    firstOutput = up.output();
  });
  afterAll(() => clearUp(up));

  /** Replaces what differs between machines and runs. */
  const stable = (text: string): string =>
    text
      // Where root runs it.
      .replaceAll(/^ +database files in .*\n/gm, "")
      .replaceAll(relative(tmpdir(), dataDir), "/home/ada/.stoker")
      .replaceAll(String(port), "8080")
      .replaceAll(/(?<=\bticket=)[\w.-]+/g, "TICKET")
      .replaceAll(/\(\d+(\.\d+)? m?s\)/g, "(9 s)")
      .replaceAll(/\n{3,}/g, "\n\n");

  const status = async (path: string, key?: string): Promise<number> => {
    const headers: Record<string, string> = key === undefined ? {} : { authorization: `Bearer ${key}` };
    const response = await fetch(up.url + path, { headers, signal: AbortSignal.timeout(10_000) });
    await response.arrayBuffer();
    return response.status;
  };

  test("lives and is ready", async () => {
    expect(await status("/healthz")).toBe(200);
    expect(await status("/readyz")).toBe(200);
  });

  test("writes the key of the first account where only its owner reads it, and the key is good", async () => {
    expect(statSync(join(dataDir, "admin.key")).mode & 0o777).toBe(0o600);
    expect(up.key()).toMatch(/^stk_/);
    expect(await status("/v1/me", up.key())).toBe(200);
    expect(up.output()).toContain("admin.key");
    expect(up.output()).not.toContain(up.key());
  });

  test("runs PostgreSQL, control plane and agent as processes of their own", () => {
    expect(
      up
        .children()
        .map(({ name }) => name)
        .toSorted(),
    ).toEqual(["agent-1", "control-plane", "postgres"]);
  });

  test.runIf(process.getuid?.() === 0)(
    "places the database where its user has access when it runs as root, without changing a mode",
    () => {
      expect(statSync(dirname(dataDir)).mode & 0o777).toBe(0o700);
      expect(existsSync(join(dataDir, "postgres.location"))).toBe(true);
      expect(existsSync(join(dataDir, "postgres"))).toBe(false);
    },
  );

  test("is found by commands that are not given its data folder", async () => {
    const env = { ...process.env, XDG_STATE_HOME: stateHome(dataDir), XDG_CONFIG_HOME: dirname(dataDir) };
    const { stdout } = await run(join(root, "cli/stoker"), ["auth", "status", "--json"], {
      env,
      cwd: dirname(dataDir),
    });
    expect(JSON.parse(stdout)).toMatchObject({
      hosts: [up.url],
      data: dataDir,
      key_source: join(dataDir, "admin.key"),
    });
  });

  test("refuses a second start on the same data in one sentence that names the first", async () => {
    const second = startUp(dataDir, await freePort(), flags);
    expect(await second.ended()).toBe(1);
    expect(second.output()).toContain(`(pid ${up.process.pid}, ${up.url})`);
    expect(await status("/readyz")).toBe(200);
  });

  test("refuses a port that is in use, naming it, before it writes anything", async () => {
    const elsewhere = newDataDir();
    const second = startUp(elsewhere, port, flags);
    expect(await second.ended()).toBe(1);
    expect(second.output()).toContain(`Port ${port} is already in use`);
    expect(second.output()).toContain("--port");
    expect(existsSync(elsewhere)).toBe(false);
    await clearUp(second);
  });

  test("starts a control plane again that was killed, and says so", async () => {
    const before = up.children().find(({ name }) => name === "control-plane");
    if (!before) throw new Error("no control plane is recorded");
    process.kill(before.pid, "SIGKILL");
    await vi.waitFor(() => expect(up.output()).toContain("The control plane ended (SIGKILL)"), patient);
    await vi.waitFor(async () => expect(await status("/readyz")).toBe(200), patient);
    expect(isAlive(before)).toBe(false);
  });

  test("starts PostgreSQL again that was killed, and serves from it", async () => {
    const before = up.children().find(({ name }) => name === "postgres");
    if (!before) throw new Error("no PostgreSQL is recorded");
    process.kill(before.pid, "SIGKILL");
    await vi.waitFor(() => {
      const now = up.children().find(({ name }) => name === "postgres");
      expect(now?.pid).not.toBe(before.pid);
      expect(now).toBeDefined();
    }, patient);
    await vi.waitFor(async () => expect(await status("/v1/me", up.key())).toBe(200), patient);
  });

  test("ends its children after kill -9, and a new start stops PostgreSQL and keeps the account", async () => {
    const key = up.key();
    const children = up.children();
    up.process.kill("SIGKILL");
    await up.ended();
    const own = children.filter(({ name }) => name !== "postgres");
    await vi.waitFor(() => expect(own.filter(isAlive)).toEqual([]), patient);

    up = startUp(dataDir, port, flags);
    await up.ready();
    expect(children.filter(isAlive)).toEqual([]);
    expect(up.key()).toBe(key);
    expect(await status("/v1/me", key)).toBe(200);
  });

  test("stops every child at Ctrl-C, releases the folder and exits with 0", async () => {
    const children = up.children();
    expect(children.length).toBe(3);
    const startedMs = performance.now();
    up.process.kill("SIGINT");
    expect(await up.ended()).toBe(0);
    expect(performance.now() - startedMs).toBeLessThan(40_000);
    expect(children.filter(isAlive)).toEqual([]);
    expect(readdirSync(join(dataDir, "run")).filter((file) => file.endsWith(".json"))).toEqual([]);
    expect(existsSync(join(dataDir, "up.lock"))).toBe(false);
    expect(readdirSync(join(stateHome(dataDir), "stoker", "up"))).toEqual([]);
  });

  // STOKER_RECORD_SESSIONS=1 rewrites the file; read the difference.
  test("shows a start and a stop as recorded", async () => {
    const session = [
      "$ stoker up --model none --driver process",
      firstOutput,
      "^C",
      up.output().slice(up.output().lastIndexOf("Ctrl-C stops everything.") + "Ctrl-C stops everything.".length),
    ];
    const file = join(root, "test/fixtures/up-session.txt");
    const text = stable(session.join("\n"));
    if (process.env["STOKER_RECORD_SESSIONS"] === "1") writeFileSync(file, text);
    expect(text).toBe(readFileSync(file, "utf8"));
  });
});

test("exits with 2 and a sentence on wrong usage, and starts nothing", async () => {
  const dataDir = newDataDir();
  const up = startUp(dataDir, 8080, ["--agents", "none"]);
  expect(await up.ended()).toBe(2);
  expect(up.output()).toContain("--agents");
  expect(existsSync(dataDir)).toBe(false);
  await clearUp(up);
});
