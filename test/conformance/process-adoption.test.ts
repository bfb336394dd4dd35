// The moments at which an agent may be killed around the start of a process, and pids that were given to somebody else.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ProcessDriver } from "../../agent/process/process-driver.ts";
import { isAlive } from "../../agent/process/process-identity.ts";
import type { ContainerDriver, ContainerPlan } from "../../agent/reconcile/driver.ts";
import { type DeploymentId, type InstanceId, randomId } from "../../proto/ids.ts";

const entry = join(import.meta.dirname, "../fakes/tiny-runtime.ts");
const signal = () => AbortSignal.timeout(30_000);
const patient = { timeout: 30_000, interval: 50 };

describe("a process driver after the death of its agent", () => {
  let folder: string;
  let first: ContainerDriver;
  let next: ContainerDriver | undefined;
  let plan: ContainerPlan;
  const record = () => join(folder, plan.instanceId, "process.json");
  const read = () => JSON.parse(readFileSync(record(), "utf8"));
  const open = () => new ProcessDriver({ folder, entry, log: pino({ level: "silent" }) });
  const seen = async (driver: ContainerDriver) => (await driver.list(signal()))[0];

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "stoker-adoption-"));
    const instanceId = randomId<"instance">(16) as InstanceId;
    plan = {
      instanceId,
      deployId: "deployment" as DeploymentId,
      generation: 4,
      kind: "runtime",
      image: "",
      args: [],
      env: { STOKER_INSTANCE_ID: instanceId, STOKER_SERVED_MODEL_NAME: "tiny/model" },
      mounts: [],
      port: 0,
      memoryBytes: 0,
      cpus: 1,
      gpuUuids: [],
      shmBytes: 0,
    };
    first = open();
    await first.start(plan, signal());
    await vi.waitFor(async () => expect((await seen(first))?.state).toBe("running"), patient);
    await first.close();
  });
  afterEach(async () => {
    for (const driver of [first, next]) await driver?.remove(plan.instanceId, signal());
    rmSync(folder, { recursive: true, force: true });
  });

  it("adopts a process whose pid the agent had no time to write down", async () => {
    const { pid, startedAt, ...launch } = read();
    writeFileSync(record(), JSON.stringify(launch));
    next = open();
    expect(await seen(next)).toMatchObject({ state: "running", generation: 4, identity: `${pid}@${startedAt}` });
    expect(read()).toMatchObject({ pid, startedAt });
  });

  it("does not take a process for its own that was given the same pid later", async () => {
    const { pid, startedAt, ...launch } = read();
    // Whoever got the pid is of no launch of ours; what is of one would be ended as left behind.
    const before = { ...launch, pid, startedAt: "another boot:1", launchId: "another", cgroup: undefined };
    writeFileSync(record(), JSON.stringify(before));
    next = open();
    expect(await seen(next)).toMatchObject({ state: "exited", exitCode: undefined });
    await next.remove(plan.instanceId, signal());
    expect(isAlive({ pid, startedAt })).toBe(true);
    expect((await first.list(signal()))[0]?.state).toBe("running");
  });

  it("does not adopt the process that a stale note names, and starts a new one", async () => {
    const { pid: _, startedAt: __, ...launch } = read();
    writeFileSync(record(), JSON.stringify({ ...launch, launchedAtMs: Date.now() - 60_000 }));
    writeFileSync(join(folder, plan.instanceId, "pid"), `${process.pid}\n`);
    next = open();
    expect(await seen(next)).toMatchObject({ state: "exited" });
    await next.start(plan, signal());
    const other = next;
    await vi.waitFor(async () => expect((await seen(other))?.state).toBe("running"), patient);
  });

  it("takes a launch that never happened for ended", async () => {
    const { pid: _, startedAt: __, ...launch } = read();
    writeFileSync(record(), JSON.stringify({ ...launch, launchedAtMs: Date.now() - 60_000 }));
    rmSync(join(folder, plan.instanceId, "pid"));
    next = open();
    expect(await seen(next)).toMatchObject({ state: "exited", exitCode: undefined });
  });
});
