// Samples of the host, its GPUs and its instances, taken every few seconds and stored: the metrics page, the host report and
// `stoker inspect` read what is here and wait for nothing.
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { GpuLoad } from "../../proto/gen/stoker/fleet/v1/GpuLoad.ts";
import type { InstanceReport } from "../../proto/gen/stoker/fleet/v1/InstanceReport.ts";
import type { Inventory } from "../../proto/gen/stoker/fleet/v1/Inventory.ts";
import { pause } from "../../proto/pause.ts";
import { isPortOpen } from "../containers/port-open.ts";
import { allGpuLoads } from "../fingerprint/all-gpus.ts";
import { type GpuSample, writeGpuLoad } from "../fingerprint/gpu-load.ts";
import { pciAddress, type Xid } from "../fingerprint/xid.ts";
import type { EnginePages } from "../metrics/engine-pages.ts";
import { hostUsage } from "../metrics/host-usage.ts";
import { instanceUsage, writtenBytes } from "../metrics/instance-usage.ts";
import type { UsedInstance } from "../metrics/usage-metrics.ts";

interface SamplesParts {
  readonly node: string;
  readonly dataDir: string;
  readonly image: string;
  readonly looksForDcgm: boolean;
  /** The cards of instances are chosen elsewhere: used memory says nothing about which of them are free for the next one. */
  readonly hidesGpuMemory: boolean;
  readonly inventory: { current(): Inventory; lookSoon(): void };
  readonly xids: () => readonly Xid[];
  readonly instances: () => readonly (InstanceReport & { readonly memoryLimitBytes?: number })[];
  readonly engines: EnginePages;
  readonly log: Logger;
}

interface Used extends UsedInstance {
  readonly cpuRatio: number | undefined;
}

const everyMs = 5_000;
/** Layers are counted file by file. */
const layersEveryMs = 60_000;
const dcgmPort = 9400;

const clock = () => performance.now();

export class Samples {
  readonly host;
  readonly #parts: SamplesParts;
  readonly #engines: EnginePages;
  readonly #inventory: SamplesParts["inventory"];
  #wasReported = false;
  readonly #gpus = lastSample<readonly GpuSample[]>(allGpuLoads().read, clock, (error) => {
    if (!this.#wasReported) this.#parts.log.warn({ err: error }, "could not sample the GPUs; keeping the last figures");
    this.#wasReported = true;
    this.#inventory.lookSoon();
  });
  #used: readonly Used[] = [];
  /** By the id of the use: a new container begins with nothing. */
  #written: ReadonlyMap<string, number> = new Map();
  #hasDcgmExporter = false;

  constructor(parts: SamplesParts) {
    this.#parts = parts;
    this.host = lastSample(hostUsage(parts.dataDir), clock);
    this.#engines = parts.engines;
    this.#inventory = parts.inventory;
  }

  async #sampleInstances(): Promise<void> {
    const before = new Map(this.#used.map((one) => [one.instanceId, one]));
    const found = await Promise.all(
      this.#parts.instances().map(async (one): Promise<Used | undefined> => {
        const seen = one.identity ? await instanceUsage(one.identity) : undefined;
        if (!seen) return undefined;
        // A plain process has its limit from us, not from a control group of an engine.
        const usage = { ...(one.memoryLimitBytes ? { memoryLimitBytes: one.memoryLimitBytes } : {}), ...seen };
        const instanceId = one.instanceId ?? "";
        const seenAt = Date.now() / 1000;
        const last = before.get(instanceId);
        const passed = last?.usage.id === usage.id ? seenAt - last.seenAt : 0;
        const spent = (usage.cpuSeconds ?? 0) - (last?.usage.cpuSeconds ?? 0);
        const startedAt = Number(one.startedAtMs ?? 0) / 1000;
        const cpuRatio = passed > 0 ? Math.max(0, spent / passed) : undefined;
        const deployId = one.deployId ?? "";
        const layer = { writtenBytes: this.#written.get(usage.id) };
        return { instanceId, deployId, image: this.#parts.image, startedAt, seenAt, usage, cpuRatio, ...layer };
      }),
    );
    this.#used = found.filter((one) => one !== undefined);
  }

  async #sampleLayers(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const next = new Map<string, number>();
      for (const { usage } of this.#used) {
        const pid = usage.id.startsWith("/process/") ? undefined : usage.pids[0];
        const bytes = pid === undefined ? undefined : await writtenBytes(pid, signal).catch(() => undefined);
        if (bytes !== undefined) next.set(usage.id, bytes);
      }
      this.#written = next;
      // The first look at the instances is yet to come, or has found none.
      await pause(this.#used.length === 0 ? everyMs : layersEveryMs, signal);
    }
  }

  async #sampleGpus(signal: AbortSignal): Promise<void> {
    if (!(await this.#gpus.look(signal))) return;
    this.#wasReported = false;
    // Update the inventory early if a GPU appeared, disappeared or has new memory errors.
    const key = (list: readonly (readonly [string, number])[]) => JSON.stringify([...new Map(list)].sort());
    const known = (this.#inventory.current().gpus ?? []).filter(
      (gpu) => gpu.pciBusId && !gpu.faultId?.startsWith("gone:"),
    );
    const reported = known.map((gpu) => [gpu.parentUuid || gpu.uuid || "", Number(gpu.eccUncorrected ?? 0)] as const);
    const whole = (this.#gpus.value ?? []).filter((gpu) => gpu.parentUuid === undefined);
    const seen = whole.map((gpu) => [gpu.uuid, gpu.eccUncorrected ?? 0] as const);
    if (key(reported) !== key(seen)) this.#inventory.lookSoon();
  }

  async run(signal: AbortSignal) {
    const layers = this.#sampleLayers(signal);
    for (let turn = 0; !signal.aborted; turn++) {
      const beganMs = clock();
      if (this.#parts.looksForDcgm && turn % 12 === 0)
        this.#hasDcgmExporter = await isPortOpen("127.0.0.1", dcgmPort, 500, signal);
      await Promise.all([
        this.#sampleGpus(signal),
        this.host.look(signal),
        this.#sampleInstances(),
        this.#engines.look(signal),
      ]).catch((error) => this.#parts.log.warn({ err: error }, "could not take a sample; will retry"));
      await wait(Math.max(500, everyMs - (clock() - beganMs)), undefined, { signal }).catch(() => {});
    }
    await layers;
  }

  readonly gpuFacts = () => {
    const known = (this.#inventory.current().gpus ?? []).map((gpu) => ({
      uuid: gpu.uuid ?? "",
      index: gpu.index ?? 0,
      healthy: gpu.healthy ?? false,
    }));
    const byAddress = new Map(this.#parts.xids().map((xid) => [xid.pciAddress, xid.code]));
    const lastXids = (this.#inventory.current().gpus ?? []).flatMap((gpu) => {
      const code = gpu.pciBusId ? byAddress.get(pciAddress(gpu.pciBusId)) : undefined;
      return code === undefined ? [] : [[gpu.uuid ?? "", code] as const];
    });
    const allocated = this.#parts
      .instances()
      .flatMap(({ gpuUuids = [], deployId = "" }) => gpuUuids.map((uuid) => ({ uuid, deployId })));
    return {
      samples: this.#gpus.value ?? [],
      ageSeconds: this.#gpus.value ? this.#gpus.ageMs / 1000 : undefined,
      known,
      lastXids: new Map(lastXids),
      allocated,
      node: this.#parts.node,
      hasDcgmExporter: this.#hasDcgmExporter,
    };
  };

  readonly used = () => this.#used;

  readonly figures = () => {
    const owners = new Map(this.#used.flatMap(({ instanceId, usage }) => usage.pids.map((pid) => [pid, instanceId])));
    return {
      load: this.host.value ?? null,
      gpus: (this.#gpus.value ?? []).map((sample) => {
        const load = writeGpuLoad(sample, (pid) => owners.get(pid) ?? "");
        const { memoryUsedBytes: _, ...shown } = load;
        return this.#parts.hidesGpuMemory ? (shown satisfies GpuLoad as GpuLoad) : load;
      }),
      gpuSampleAgeMs: Math.round(this.#gpus.ageMs),
    };
  };

  readonly withUsage = (report: InstanceReport) => {
    const found = this.#used.find(({ instanceId }) => instanceId === report.instanceId);
    const { running, waiting, kvCacheRatio } = this.#engines.figures(report.instanceId ?? "");
    return {
      ...report,
      ...(found?.usage.workingSetBytes === undefined ? {} : { memoryBytes: found.usage.workingSetBytes }),
      ...(found?.cpuRatio === undefined ? {} : { cpuRatio: found.cpuRatio }),
      ...(kvCacheRatio === undefined ? {} : { kvCacheRatio }),
      ...(running === undefined ? {} : { engineRunning: Math.round(running) }),
      ...(waiting === undefined ? {} : { engineWaiting: Math.round(waiting) }),
    };
  };

  readonly errors = () => ({ nvidia_smi: this.#gpus.failures, engine: this.#engines.failures });
}

interface LastSample<Value> {
  /** Undefined before the first. */
  readonly value: Value | undefined;
  readonly ageMs: number;
  readonly failures: number;
  /** Never rejects: after a failure the last value stays and grows old. True when it succeeded. */
  look(signal: AbortSignal): Promise<boolean>;
}

function lastSample<Value>(
  read: (signal: AbortSignal) => Promise<Value>,
  clock: () => number,
  onFailure: (error: unknown) => void = () => {},
): LastSample<Value> {
  let value: Value | undefined;
  let atMs = clock();
  let failures = 0;
  return {
    get value() {
      return value;
    },
    get ageMs() {
      return clock() - atMs;
    },
    get failures() {
      return failures;
    },
    async look(signal) {
      try {
        value = await read(signal);
        atMs = clock();
        return true;
      } catch (error) {
        if (signal.aborted) return false;
        failures += 1;
        onFailure(error);
        return false;
      }
    },
  };
}
