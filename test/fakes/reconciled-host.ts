// The agent's loop in this process over real model servers of the process driver: everything but session and data path.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { ProcessDriver } from "../../agent/process/process-driver.ts";
import { createProbe } from "../../agent/reconcile/health.ts";
import { type LoopDeps, Reconciler } from "../../agent/reconcile/loop.ts";
import type { DataPathStats } from "../../agent/reconcile/ports.ts";
import { watchLimits } from "../../agent/reconcile/progress.ts";
import type { OneReport } from "../../agent/reconcile/report.ts";
import { createCanary } from "../../agent/reconcile/watch-progress.ts";
import type { DesiredState__Output } from "../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import { type InstanceId, randomId } from "../../proto/ids.ts";
import { instanceSpec } from "./instance-spec.ts";

export interface ReconciledHost {
  readonly folder: string;
  /** A specification that the tiny runtime serves; `script` as in tiny-runtime.ts. */
  spec(script?: object, over?: Partial<InstanceSpec__Output>): InstanceSpec__Output;
  want(...instances: readonly InstanceSpec__Output[]): void;
  /** Only tombstones of these instances remain desired. */
  remove(...ids: readonly string[]): void;
  report(id: string): OneReport | undefined;
  /** What the data path says of an instance from now on. */
  stats(id: string, stats: Partial<DataPathStats>): void;
  /** Its data path refuses requests because it sleeps. */
  isResting(id: string): boolean;
  pid(id: string): number;
  readonly whileEnded: Reconciler["whileEnded"];
  /** Stops the loop as the agent does at its shutdown. Instances continue to run. */
  stopLoop(): Promise<void>;
  close(): Promise<void>;
}

/** `before`: a host whose loop has stopped; this one adopts its instances, as the next agent does. */
export function startReconciledHost(over: Partial<LoopDeps>, before?: ReconciledHost): ReconciledHost {
  const folder = before?.folder ?? mkdtempSync(join(tmpdir(), "stoker-host-"));
  const log = pino({ level: "silent" });
  const entry = join(import.meta.dirname, "tiny-runtime.ts");
  const driver = new ProcessDriver({ folder: join(folder, "instances"), entry, log });
  const stats = new Map<string, Partial<DataPathStats>>();
  const resting = new Set<string>();
  const idleListeners: (() => void)[] = [];
  const none = () => {};
  const ending = new AbortController();
  const reconciler = new Reconciler({
    meter: undefined,
    driver,
    weights: { ensure: async ({ localPath }) => ({ modelPath: localPath }) },
    dataPath: {
      setTargets: none,
      stats: (id) => ({ inFlight: 0, waiting: 0, tokensPerSecond: 0, ...stats.get(id) }),
      markDraining: none,
      rest: (id) => Boolean(resting.add(id)),
      resume: (id) => void resting.delete(id),
      onIdle: (listener) => void idleListeners.push(listener),
      serverEnded: () => 0,
      forget: none,
      drained: async () => true,
      cut: async () => {},
    },
    probe: createProbe(),
    // A slow machine is no frozen model server: the limits of real life.
    progress: { canary: createCanary(), limits: watchLimits },
    gpuFaults: async () => [],
    gpuMemory: { read: async () => [], limitMs: 1_000, everyMs: 100 },
    host: { driver: "process", runtimeImage: "", allowedImages: [], filesDir: join(folder, "files"), logLevel: "info" },
    metrics: { phase: none, took: none, downloadFailed: none, restarted: none, gone: none },
    clock: () => performance.now(),
    controlTimeMs: Date.now,
    minAwakeMs: 0,
    random: () => 0,
    drainMs: 1_000,
    stopGraceMs: 10_000,
    onNews: none,
    log,
    ...over,
  });
  const running = reconciler.run(ending.signal);
  let generation = 0;
  let specs = 0;
  function setDesired(instances: readonly InstanceSpec__Output[], tombstones: readonly string[]): void {
    const desired = { nodeEpoch: "1", generation: String(++generation), instances, tombstones };
    reconciler.setDesired(desired as unknown as DesiredState__Output);
  }
  async function stopLoop(): Promise<void> {
    ending.abort();
    await running;
  }
  return {
    folder,
    stopLoop,
    spec(script = {}, more = {}) {
      const instanceId = randomId<"instance">(16);
      const localPath = join(folder, `${instanceId}.gguf`);
      writeFileSync(localPath, "GGUF tiny");
      writeFileSync(`${localPath}.script.json`, JSON.stringify(script));
      // Each its own: two on one GPU are refused.
      const gpuUuids = [`cpu-host-${specs++}`];
      const whole = instanceSpec({ instanceId, servedModelName: "tiny/model", memoryBytes: "0", gpuUuids, ...more });
      return { ...whole, weights: whole.weights && { ...whole.weights, localPath } };
    },
    want: (...instances) => setDesired(instances, []),
    remove: (...ids) => setDesired([], ids),
    report: (id) => reconciler.report()?.instances.find((one) => one.instanceId === id),
    stats(id, given) {
      stats.set(id, given);
      if (given.inFlight === 0) for (const listener of idleListeners) listener();
    },
    isResting: (id) => resting.has(id),
    pid: (id) => Number(JSON.parse(readFileSync(join(folder, "instances", id, "process.json"), "utf8")).pid),
    whileEnded: (deployId, work, signal) => reconciler.whileEnded(deployId, work, signal),
    async close() {
      await stopLoop();
      const signal = AbortSignal.timeout(30_000);
      for (const one of await driver.list(signal)) await driver.remove(one.instanceId as InstanceId, signal);
      await driver.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
