// Chooses the driver of the model servers of this host. `auto` is docker only if an engine replies and an image is named:
// an engine alone says nothing about what it could run.
import { realpathSync } from "node:fs";
import { join } from "node:path";
import type { Logger } from "pino";
import { Counter, Histogram, type Registry } from "prom-client";
import type { Inventory } from "../../proto/gen/stoker/fleet/v1/Inventory.ts";
import type { HostId, InstanceId } from "../../proto/ids.ts";
import type { AgentConfig } from "../config.ts";
import { imageRules } from "../engines/allowed-image.ts";
import { createExternalDriver } from "../external/external-driver.ts";
import { machineProbe } from "../fingerprint/host-parts.ts";
import { ProcessDriver } from "../process/process-driver.ts";
import { type ContainerDriver, type ContainerPlan, DriverError } from "../reconcile/driver.ts";
import type { TextSeal } from "../state/text-seal.ts";
import { whyNoVolumes } from "./volumes.ts";

type DriverName = "process" | "docker" | "kubernetes";

interface Host {
  readonly hostId: HostId;
  readonly podSeal: TextSeal;
}

export function chooseDriver(config: Pick<AgentConfig, "driver" | "runtimeImage">, dockerVersion: string): DriverName {
  if (config.driver !== "auto") return config.driver;
  return dockerVersion !== "" && config.runtimeImage !== "" ? "docker" : "process";
}

/** Engines from elsewhere that this host can run: those whose image or, for processes, program its operator named. */
export function engineNames(
  config: Pick<AgentConfig, "driver" | "runtimeImage" | "engineImages" | "vendorImages" | "enginePrograms">,
  dockerVersion: string,
): readonly string[] {
  const driver = chooseDriver(config, dockerVersion);
  const isProcess = driver === "process";
  const runsImages = driver === "kubernetes" || dockerVersion !== "";
  const images = runsImages ? config.engineImages : {};
  const named: Readonly<Record<string, string | undefined>> = isProcess ? config.enginePrograms : images;
  const variants = isProcess || !runsImages ? [] : Object.values(config.vendorImages ?? {});
  return Object.keys(named).filter(
    (name) =>
      named[name] !== undefined || variants.some((one: Readonly<Record<string, unknown>>) => one[name] !== undefined),
  );
}

/** As reported to the control plane, so that it places nothing here that would be refused. */
export function containerRules(config: AgentConfig, dockerVersion: string): NonNullable<Inventory["containers"]> {
  const driver = chooseDriver(config, dockerVersion);
  const { own, allowed } = imageRules(config);
  return {
    unavailable: driver === "process" ? "its agent starts model servers as processes, not in containers" : "",
    ownImages: [...own],
    allowedImages: [...allowed],
    volumesUnavailable: whyNoVolumes(driver),
    terminals: config.allowsTerminals,
  };
}

export async function createDrivers(
  name: DriverName,
  config: AgentConfig,
  { hostId, podSeal }: Host,
  log: Logger,
  rentals: ContainerDriver | undefined,
): Promise<ContainerDriver> {
  return combineDrivers(await runtimeDriver(name, config, { hostId, podSeal }, log), createExternalDriver(), rentals);
}

/** Returns the reason for which models' containers are not isolated from this host; undefined if they are, or without Docker. */
export async function isolationTrouble(
  config: AgentConfig,
  dockerVersion: string,
  hostId: HostId,
  log: Logger,
): Promise<string | undefined> {
  if (chooseDriver(config, dockerVersion) !== "docker") return undefined;
  const { createModelFirewall } = await import("../docker/model-firewall.ts");
  return createModelFirewall({ nodeName: hostId, log, isRequired: config.requiresFirewall }).whyNot();
}

/** Facts of a host whose model servers run as Pods: the cluster, not an engine here, has their images and devices. */
export function hostOptionsOf(config: Pick<AgentConfig, "driver">) {
  if (config.driver !== "kubernetes") return {};
  return {
    drivers: ["kubernetes", "external"],
    // Each model has its GPUs whole, also while it does not use them.
    sleeps: false,
    probes: {
      docker: {
        name: "docker",
        read: async () => ({ dockerVersion: "", hasNvidiaRuntime: true, cdiDevices: [] }),
      },
      // The limits of this agent's own Pod are not those of model servers.
      cpuMemory: machineProbe(),
    },
  };
}

async function runtimeDriver(
  name: DriverName,
  config: AgentConfig,
  { hostId, podSeal }: Host,
  log: Logger,
): Promise<ContainerDriver> {
  if (name === "process")
    return new ProcessDriver({ folder: join(config.dataDir, "instances"), entry: config.runtimeEntry, log });
  if (name === "kubernetes") {
    const { KubernetesDriver } = await import("../kubernetes/kubernetes-driver.ts");
    const { data, ...settings } = config.kubernetes;
    return new KubernetesDriver({
      ...settings,
      // Mounts are named by their paths after links.
      data: data && { ...data, folder: realpathSync(data.folder) },
      hostId,
      runtimeImage: config.runtimeImage,
      seal: podSeal,
      log,
    });
  }
  // Only where it is used: its client is a large part of a small agent's memory.
  const { DockerDriver } = await import("../docker/docker-driver.ts");
  return new DockerDriver({
    log,
    // Not the node's name: two agents of one engine may share that by mistake.
    nodeName: hostId,
    containerSubnet: config.containerSubnet,
    runtimeImage: config.runtimeImage,
    requiresFirewall: config.requiresFirewall,
  });
}

/** An instance is in exactly one of them; the others' `stop` and `remove` are no-ops. */
function combineDrivers(
  runtime: ContainerDriver,
  external: ContainerDriver,
  rentals?: ContainerDriver,
): ContainerDriver {
  const apart = rentals ? [external, rentals] : [external];
  const all = [runtime, ...apart];
  const driverOf = (kind: ContainerPlan["kind"]) =>
    kind === "external" ? external : kind === "rental" ? rentals : runtime;
  const inTurn = async (act: (driver: ContainerDriver) => Promise<void>) => {
    for (const driver of all) await act(driver);
  };
  /** Returns the driver of the instance; the runtime's if none has it. */
  async function holder(id: InstanceId, signal: AbortSignal): Promise<ContainerDriver> {
    for (const driver of apart) if ((await driver.list(signal)).some((one) => one.instanceId === id)) return driver;
    return runtime;
  }
  return {
    name: runtime.name,
    list: async (signal) => (await Promise.all(all.map((driver) => driver.list(signal)))).flat(),
    pull: async (plan, onProgress, signal) => driverOf(plan.kind)?.pull(plan, onProgress, signal),
    async start(plan, signal) {
      const driver = driverOf(plan.kind);
      if (!driver) throw new DriverError("start_failed", "this host rents out no containers", { retryable: false });
      await driver.start(plan, signal);
    },
    stop: async (id, graceMs, signal) => (await holder(id, signal)).stop(id, graceMs, signal),
    remove: (id, signal) => inTurn((driver) => driver.remove(id, signal)),
    logs: async (id, range, signal) => (await holder(id, signal)).logs(id, range, signal),
    openShell: async (id, size, signal) => (await holder(id, signal)).openShell?.(id, size, signal),
    watch: (onChange) => {
      for (const driver of all) driver.watch(onChange);
    },
    close: () => inTurn((driver) => driver.close()),
  };
}

export function measuredDriver(driver: ContainerDriver, registry: Registry): ContainerDriver {
  const registers = [registry];
  const seconds = new Histogram({
    name: "stoker_docker_request_seconds",
    help: "Time of calls to the driver that runs the instances, by what was asked",
    labelNames: ["op"],
    buckets: [0.005, 0.02, 0.1, 0.5, 2, 10, 30, 120, 600],
    registers,
  });
  const errors = new Counter({
    name: "stoker_docker_errors_total",
    help: "Calls to the driver that failed",
    labelNames: ["op", "code"],
    registers,
  });
  async function timed<T>(op: string, call: Promise<T>): Promise<T> {
    const began = performance.now();
    try {
      return await call;
    } catch (error) {
      errors.inc({ op, code: error instanceof DriverError ? error.code : "other" });
      throw error;
    } finally {
      seconds.observe({ op }, (performance.now() - began) / 1000);
    }
  }
  return {
    name: driver.name,
    list: (signal) => timed("list", driver.list(signal)),
    pull: (plan, onProgress, signal) => driver.pull(plan, onProgress, signal),
    start: (plan, signal) => timed("start", driver.start(plan, signal)),
    stop: (id, graceMs, signal) => timed("stop", driver.stop(id, graceMs, signal)),
    remove: (id, signal) => timed("remove", driver.remove(id, signal)),
    logs: (id, range, signal) => timed("logs", driver.logs(id, range, signal)),
    openShell: async (id, size, signal) => timed("shell", Promise.resolve(driver.openShell?.(id, size, signal))),
    watch: (onChange) => driver.watch(onChange),
    close: () => driver.close(),
  };
}
