// Chooses the driver of the model servers of this host. `auto` is docker only if an engine replies and an image is named:
// an engine alone says nothing about what it could run.
import { join } from "node:path";
import type { Logger } from "pino";
import type { Inventory } from "../../proto/gen/stoker/fleet/v1/Inventory.ts";
import type { HostId } from "../../proto/ids.ts";
import type { AgentConfig } from "../config.ts";
import { imageRules } from "../engines/allowed-image.ts";
import { createExternalDriver } from "../external/external-driver.ts";
import { createProcessDriver } from "../process/process-driver.ts";
import { combineDrivers } from "../reconcile/combine-drivers.ts";
import type { ContainerDriver } from "../reconcile/driver.ts";
import { whyNoVolumes } from "./volumes.ts";

export type DriverName = "process" | "docker";

export function chooseDriver(config: Pick<AgentConfig, "driver" | "runtimeImage">, dockerVersion: string): DriverName {
  if (config.driver !== "auto") return config.driver;
  return dockerVersion !== "" && config.runtimeImage !== "" ? "docker" : "process";
}

/** Engines from elsewhere that this host can run: those whose image its operator named, in containers. */
export function engineNames(config: Pick<AgentConfig, "driver" | "engineImages">): readonly string[] {
  if (config.driver === "process") return [];
  return (["vllm", "sglang"] as const).filter((name) => config.engineImages[name] !== undefined);
}

/** As reported to the control plane, so that it places nothing here that would be refused. */
export function containerRules(config: AgentConfig, dockerVersion: string): NonNullable<Inventory["containers"]> {
  const driver = chooseDriver(config, dockerVersion);
  const { own, allowed } = imageRules(config);
  return {
    unavailable: driver === "docker" ? "" : "its agent starts model servers as processes, not in containers",
    ownImages: [...own],
    allowedImages: [...allowed],
    volumesUnavailable: whyNoVolumes(driver),
  };
}

export async function createDrivers(
  name: DriverName,
  config: AgentConfig,
  hostId: HostId,
  log: Logger,
  rentals: ContainerDriver | undefined,
): Promise<ContainerDriver> {
  return combineDrivers(await runtimeDriver(name, config, hostId, log), createExternalDriver(), rentals);
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

async function runtimeDriver(
  name: DriverName,
  config: AgentConfig,
  hostId: HostId,
  log: Logger,
): Promise<ContainerDriver> {
  if (name === "process")
    return createProcessDriver({ folder: join(config.dataDir, "instances"), entry: config.runtimeEntry, log });
  // Only where it is used: its client is a large part of a small agent's memory.
  const { createDockerDriver } = await import("../docker/docker-driver.ts");
  return createDockerDriver({
    log,
    // Not the node's name: two agents of one engine may share that by mistake.
    nodeName: hostId,
    containerSubnet: config.containerSubnet,
    runtimeImage: config.runtimeImage,
    requiresFirewall: config.requiresFirewall,
  });
}
