// Driver for development: each instance is a plain process in its own session. No isolation, and a hard memory limit only where
// control groups can be created. Children outlive the agent; the next agent finds them by their folders.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import { isDiskFull } from "../../proto/disk-space.ts";
import type { InstanceId } from "../../proto/ids.ts";
import { type ContainerDriver, type ContainerPlan, DriverError } from "../reconcile/driver.ts";
import { instanceFolder, instanceIdsIn, type Launch, removeFolder, writeLaunch } from "./instance-folder.ts";
import { beginLog, readLog, trimLog } from "./instance-log.ts";
import { findMemoryCgroups, type MemoryCgroups, removeCgroup } from "./memory-cgroup.ts";
import { RuntimeProcess, spawnRuntime } from "./runtime-process.ts";

interface ProcessDriverOptions {
  readonly folder: string;
  readonly entry: string;
  readonly log: Logger;
  /** By default what the system allows; false: none. */
  readonly cgroups?: MemoryCgroups | false;
}

const fastLookMs = 150;
const slowLookMs = 1_000;
const killLimitMs = 5_000;
const idForm = /^[A-Za-z0-9][\w.-]{0,63}$/;

export class ProcessDriver implements ContainerDriver {
  readonly #options: ProcessDriverOptions;
  readonly #log: Logger;
  readonly #known = new Map<InstanceId, RuntimeProcess>();
  readonly #listeners: (() => void)[] = [];
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;
  readonly #cgroups: MemoryCgroups | undefined;

  constructor(options: ProcessDriverOptions) {
    this.#options = options;
    this.#log = options.log;
    mkdirSync(options.folder, { recursive: true, mode: 0o700 });
    this.#cgroups = options.cgroups === undefined ? findMemoryCgroups() : options.cgroups || undefined;
    const limit = this.#cgroups
      ? `their memory is limited by control groups (version ${this.#cgroups.version})`
      : "their memory is watched and not limited, because this process may make no control groups";
    options.log.warn(
      `model servers run as plain processes without isolation: this driver is for development; ${limit}`,
    );
    for (const id of instanceIdsIn(options.folder)) {
      const one = RuntimeProcess.adopt(instanceFolder(options.folder, id));
      if (!one) continue;
      this.#known.set(id, one);
      one.look(Date.now());
      if (!one.isEnded && !one.ending)
        options.log.info({ instance: id, pid: one.pid }, "found the model server of an earlier agent");
    }
    this.#watchOver();
  }

  readonly #changed = (): void => {
    if (!this.#isClosed) for (const listener of this.#listeners) listener();
  };

  #watchOver(): void {
    clearTimeout(this.#timer);
    const alive = [...this.#known.values()].filter((one) => !one.isEnded);
    if (this.#isClosed || alive.length === 0) return;
    const isStarting = alive.some((one) => one.observed().state === "starting");
    this.#timer = setTimeout(this.#look, isStarting ? fastLookMs : slowLookMs).unref();
  }

  readonly #look = (): void => {
    let isChanged = false;
    for (const [id, one] of this.#known) {
      isChanged = one.look(Date.now()) || isChanged;
      if (one.enforceMemory())
        this.#log.warn(
          { instance: id, limitBytes: one.launch.memoryBytes },
          "ended a model server that held too much memory",
        );
      if (!one.isEnded) trimLog(one.folder.log);
    }
    if (isChanged) this.#changed();
    this.#watchOver();
  };

  #launch(plan: ContainerPlan, port: number | undefined): void {
    const folder = instanceFolder(this.#options.folder, plan.instanceId);
    const { instanceId, deployId, generation, memoryBytes } = plan;
    const record: Launch = {
      ...{ instanceId, deployId, generation, memoryBytes },
      cgroup: memoryBytes > 0 ? this.#cgroups?.make(`stoker-${instanceId}`, memoryBytes) : undefined,
      claimedGpus: plan.claimedGpus,
      port,
      launchId: randomUUID(),
      launchedAtMs: Date.now(),
    };
    writeLaunch(folder, record);
    beginLog(folder.log, record.launchedAtMs);
    const child = spawnRuntime(plan, this.#options.entry, record, folder);
    this.#known.set(instanceId, RuntimeProcess.started(folder, record, child, this.#changed));
    this.#log.info({ instance: instanceId, generation, pid: child.pid }, "started a model server");
  }

  async #untilEnded(one: RuntimeProcess, limitMs: number, signal: AbortSignal): Promise<boolean> {
    const deadlineMs = performance.now() + limitMs;
    for (;;) {
      one.look(Date.now());
      if (one.isEnded) return true;
      const leftMs = deadlineMs - performance.now();
      if (leftMs <= 0) return false;
      await wait(Math.min(50, leftMs), undefined, { signal });
    }
  }

  readonly stop = async (id: InstanceId, graceMs: number, signal: AbortSignal): Promise<void> => {
    const one = this.#known.get(id);
    if (!one || one.isEnded) return;
    one.look(Date.now());
    if (graceMs > 0) {
      one.signal("SIGTERM");
      if (await this.#untilEnded(one, graceMs, signal)) return this.#changed();
    }
    one.signal("SIGKILL");
    const isGone = await this.#untilEnded(one, killLimitMs, signal);
    this.#changed();
    if (!isGone)
      throw new DriverError("start_failed", `the process ${one.pid} of ${id} does not end, not even by SIGKILL`, {
        retryable: true,
      });
  };

  readonly name = "process";

  readonly list: ContainerDriver["list"] = async () => {
    const nowMs = Date.now();
    for (const one of this.#known.values()) one.look(nowMs);
    await Promise.all([...this.#known.values()].map((one) => one.ending));
    return [...this.#known.values()].map((one) => one.observed());
  };

  readonly pull: ContainerDriver["pull"] = async () => {};

  readonly start: ContainerDriver["start"] = async (plan) => {
    const port = plan.program && (await freePort());
    const before = this.#known.get(plan.instanceId);
    if (before && !before.isEnded) {
      if (before.launch.generation === plan.generation) return;
      throw new DriverError("start_failed", "an older generation of the instance still runs", { retryable: true });
    }
    try {
      this.#launch(plan, port);
    } catch (error) {
      throw startError(error);
    }
    this.#watchOver();
  };

  readonly remove: ContainerDriver["remove"] = async (id, signal) => {
    // The id becomes a path.
    if (!idForm.test(id)) return;
    await this.stop(id, 0, signal);
    const cgroup = this.#known.get(id)?.launch.cgroup;
    this.#known.delete(id);
    if (cgroup !== undefined) removeCgroup(cgroup);
    removeFolder(instanceFolder(this.#options.folder, id));
  };

  readonly logs: ContainerDriver["logs"] = async (id, range) => {
    const one = this.#known.get(id);
    return one ? readLog(one.folder.log, range, one.launch.launchedAtMs) : [];
  };

  readonly watch: ContainerDriver["watch"] = (listener) => void this.#listeners.push(listener);

  readonly close = async () => {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  };
}

/** Another process may take it before the program does; the program then ends, and its next start gets another port. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

function startError(error: unknown): DriverError {
  const code = (error as NodeJS.ErrnoException).code ?? "";
  const isFull = isDiskFull(error);
  const what = isFull
    ? "the disk is full; free some space in the agent's data folder"
    : `it failed with ${code || error}`;
  return new DriverError(isFull ? "no_space" : "start_failed", `The model server could not be started: ${what}.`, {
    retryable: true,
    cause: error,
  });
}
