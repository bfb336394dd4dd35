// Model servers that run as processes answer their agent only, and metrics pages the holder of their token.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { Registry } from "prom-client";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { readConfig as readAgentConfig } from "../../agent/config.ts";
import { startMetricsServer } from "../../agent/metrics/metrics-server.ts";
import { ProcessDriver } from "../../agent/process/process-driver.ts";
import type { ContainerDriver, ContainerPlan, Observed } from "../../agent/reconcile/driver.ts";
import { createProbe } from "../../agent/reconcile/health.ts";
import { readConfig as readControlPlaneConfig } from "../../control-plane/config.ts";
import { createAdminPages } from "../../control-plane/http/core/create-admin-http.ts";
import { BearerSecret } from "../../proto/bearer-secret.ts";
import type { DeploymentId, InstanceId } from "../../proto/ids.ts";

const log = pino({ level: "silent" });
const signal = () => AbortSignal.timeout(20_000);
const patient = { timeout: 20_000, interval: 50 };
const paths = [
  ["GET", "/health"],
  ["GET", "/v1/models"],
  ["GET", "/metrics"],
  ["GET", "/usage/canary"],
  ["GET", "/nowhere"],
  ["POST", "/v1/chat/completions"],
  ["POST", "/v1/embeddings"],
  ["POST", "/v1/load_lora_adapter"],
  ["POST", "/v1/unload_lora_adapter"],
] as const;

describe("a model server of the process driver", () => {
  let folder: string;
  let driver: ContainerDriver;
  let plan: ContainerPlan;
  type Running = Extract<Observed, { state: "running" }>;

  const open = () =>
    new ProcessDriver({
      folder: join(folder, "instances"),
      entry: join(import.meta.dirname, "../../runtime/main.ts"),
      log,
      cgroups: false,
    });
  const running = (of: ContainerDriver) =>
    vi.waitFor(async () => {
      const [one] = await of.list(signal());
      expect(one?.state).toBe("running");
      return one as Running;
    }, patient);

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "stoker-secret-"));
    // A pipe that nobody writes to: the runtime listens and loads it for as long as the test takes.
    const model = join(folder, "model.gguf");
    execFileSync("mkfifo", [model]);
    const instanceId = "secret-1" as InstanceId;
    plan = {
      ...{ instanceId, deployId: "deployment" as DeploymentId, generation: 1, kind: "runtime", image: "", args: [] },
      env: { STOKER_INSTANCE_ID: instanceId, STOKER_SERVED_MODEL_NAME: "o/m", STOKER_MODEL_PATH: model },
      ...{ mounts: [], port: 0, memoryBytes: 0, cpus: 1, gpuUuids: [], shmBytes: 0 },
    };
    driver = open();
  });
  afterEach(async () => {
    await driver.remove(plan.instanceId, signal());
    await driver.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it("requires its secret on every path, which is neither in its arguments nor in its environment", async () => {
    await driver.start(plan, signal());
    const { origin, secret, identity } = await running(driver);
    if (!secret) throw new Error("the driver reports no secret");
    const value = secret.header.slice("Bearer ".length);
    expect(value).toMatch(/^[\w-]{43}$/);
    const wrong = ["", "Bearer ", `Bearer ${"x".repeat(43)}`, `Basic ${value}`, value, `${secret.header}x`];
    for (const [method, path] of paths)
      for (const authorization of wrong) {
        const answer = await fetch(origin + path, { method, headers: authorization === "" ? {} : { authorization } });
        expect([path, authorization, answer.status]).toEqual([path, authorization, 401]);
        await answer.body?.cancel();
      }
    const known = await fetch(`${origin}/health`, { headers: { authorization: secret.header } });
    expect(await known.json()).toMatchObject({ status: "loading", instance_id: plan.instanceId });
    const pid = identity.split("@")[0] ?? "";
    for (const file of ["cmdline", "environ"])
      expect(readFileSync(`/proc/${pid}/${file}`, "utf8")).not.toContain(value);
    expect(JSON.stringify(await driver.list(signal()))).not.toContain(value);
    expect(statSync(join(folder, "instances", plan.instanceId)).mode & 0o077).toBe(0);
    for (const file of readdirSync(join(folder, "instances", plan.instanceId))) {
      const path = join(folder, "instances", plan.instanceId, file);
      if (readFileSync(path, "utf8").includes(value))
        expect([file, statSync(path).mode & 0o777]).toEqual(["secret", 0o600]);
    }
  });

  it("is adopted by the next agent with its secret, and gets another one at its next start", async () => {
    await driver.start(plan, signal());
    const before = await running(driver);
    await driver.close();
    driver = open();
    const adopted = await running(driver);
    expect(adopted.secret?.header).toBe(before.secret?.header);
    const health = await createProbe()({ ...adopted, servedModelName: "o/m", isExternal: false }, signal());
    expect(health.kind).toBe("loading");
    expect(
      await createProbe()({ ...adopted, secret: undefined, servedModelName: "o/m", isExternal: false }, signal()),
    ).toEqual({ kind: "bad", why: "/health answered 401" });
    await driver.stop(plan.instanceId, 0, signal());
    await driver.start({ ...plan, generation: 2 }, signal());
    expect((await running(driver)).secret?.header).not.toBe(before.secret?.header);
  });
});

describe("metrics pages", () => {
  const token = new BearerSecret("a-token-of-some-length");
  const asked = async (url: string, authorization?: string) =>
    (await fetch(url, authorization === undefined ? {} : { headers: { authorization } })).status;

  it("listen on loopback by default on an agent, and require the token if there is one", async () => {
    const env = { STOKER_AGENT_DATA: "/tmp/a", STOKER_CONTROL: "10.0.0.1:9090", STOKER_INGRESS_HOST: "0.0.0.0" };
    expect(readAgentConfig(env).metricsHost).toBe("127.0.0.1");
    const page = { contentType: "text/plain", render: () => "page" };
    const pages = { "/metrics": page, "/metrics/runtime": page, "/inspect": { ...page, isLocal: true } };
    const server = await startMetricsServer({ pages, host: "127.0.0.1", port: 0, token });
    onTestFinished(() => server.close());
    for (const path of Object.keys(pages)) {
      const url = `http://127.0.0.1:${server.port}${path}`;
      expect([path, await asked(url), await asked(url, "Bearer x"), await asked(url, token.header)]).toEqual([
        ...[path, 401, 401, 200],
      ]);
    }
    const open = await startMetricsServer({ pages, host: "127.0.0.1", port: 0, token: undefined });
    onTestFinished(() => open.close());
    for (const path of Object.keys(pages)) expect(await asked(`http://127.0.0.1:${open.port}${path}`)).toBe(200);
  });

  it("listen on loopback by default on a control plane, and require the token if there is one", async () => {
    const env = { DATABASE_URL: "postgresql://stoker@127.0.0.1/stoker" };
    expect(readControlPlaneConfig(env).admin.host).toBe("127.0.0.1");
    const folder = mkdtempSync(join(tmpdir(), "stoker-token-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const adminTokenFile = join(folder, "token");
    writeFileSync(adminTokenFile, "a-token-of-some-length\n");
    const config = readControlPlaneConfig({ ...env, STOKER_METRICS_TOKEN_FILE: adminTokenFile });
    const warnings: string[] = [];
    const warn = (_: unknown, text: string) => void warnings.push(text);
    const pages = createAdminPages(config, new Registry(), () => [], { warn } as never);
    onTestFinished(() => pages.close());
    await pages.listen({ port: 0, host: "127.0.0.1" });
    const url = `http://127.0.0.1:${(pages.server.address() as AddressInfo).port}`;
    for (const path of ["/metrics", "/metrics/targets"])
      expect([
        await asked(url + path),
        await asked(url + path, "Bearer x"),
        await asked(url + path, token.header),
      ]).toEqual([...[401, 401, 200]]);
    expect(await asked(`${url}/healthz`)).toBe(200);
    expect(await asked(`${url}/nowhere`)).toBe(401);
    expect(warnings).toEqual([]);
    createAdminPages({ admin: { host: "0.0.0.0", port: 0 }, adminTokenFile: undefined }, new Registry(), () => [], {
      warn,
    } as never);
    expect(warnings).toEqual([expect.stringContaining("STOKER_METRICS_TOKEN_FILE")]);
  });

  it("refuse a token file without a token", () => {
    for (const text of ["", "two words", "ümlaut"]) expect(() => new BearerSecret(text)).toThrow("printable ASCII");
  });
});
