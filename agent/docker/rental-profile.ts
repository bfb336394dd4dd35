// Profile of rented containers on a Docker engine.

import { readFileSync } from "node:fs";
import type Docker from "dockerode";
import type { Logger } from "pino";
import type { InstanceId } from "../../proto/ids.ts";
import { isPortOpen } from "../containers/port-open.ts";
import { DriverError } from "../reconcile/driver.ts";
import { ensureRentalNetwork } from "./bridge-network.ts";
import type { Firewall } from "./firewall.ts";
import { firewalledNetworks } from "./firewalled-networks.ts";
import { labelFilter, ownedOf } from "./labels.ts";
import type { ContainerProfile } from "./profile.ts";
import { rentalConfig, sshPort, sshPortLabel } from "./rental-config.ts";

export interface RentalProfileOptions {
  readonly nodeName: string;
  readonly subnet: string;
  readonly ports: { readonly first: number; readonly last: number };
  readonly bind: string;
  readonly address: string;
  readonly dns: readonly string[];
  readonly diskBytes: number;
  readonly firewall: Firewall;
  readonly log: Logger;
  readonly nowMs?: () => number;
}

/** Half a minute or more: earlier rules still apply while another process has the kernel's lock. */
const failuresToStop = 6;

export function rentalProfile(options: RentalProfileOptions): ContainerProfile {
  const { nodeName, firewall, log } = options;
  const networks = firewalledNetworks({
    nodeName,
    firewall,
    ensure: (docker, id, signal) => ensureRentalNetwork(docker, id, options, signal),
    ...(options.nowMs ? { nowMs: options.nowMs } : {}),
  });
  let failures = 0;

  return {
    // The user of SSH.
    shellUser: "ubuntu",
    config: (plan, docker, signal) =>
      networks.alone(async () => {
        const limitsDisk = options.diskBytes > 0 && (await canLimitDisk(docker, signal));
        return rentalConfig(plan, {
          nodeName,
          dns: options.dns,
          bind: options.bind,
          publishedPort: await freePort(docker, plan.instanceId, options, signal),
          diskBytes: limitsDisk ? options.diskBytes : 0,
        });
      }),
    prepare: networks.prepare,
    cleanUp: networks.cleanUp,
    // Never throws: a failure is logged, and after several all rentals are stopped, because they must not run without rules.
    async uphold(ids, docker, signal) {
      try {
        if (await networks.uphold(ids, docker, signal)) failures = 0;
      } catch (err) {
        failures += 1;
        log.error({ err, failures }, "the firewall of rented containers could not be upheld");
        if (failures < failuresToStop) return;
        log.error({ alert: "rental_firewall" }, "rented containers are stopped: their firewall cannot be upheld");
        await stopAll(docker, nodeName, signal).catch((error) => log.error({ err: error }, "stopping rentals"));
      }
    },
    seen(observed, info) {
      if (observed.state !== "running") return observed;
      const published = info.NetworkSettings.Ports[`${sshPort}/tcp`]?.[0]?.HostPort;
      const origin = observed.origin.replace(/^http:/, "ssh:");
      return {
        ...observed,
        origin,
        ...(published ? { ssh: { address: options.address, port: Number(published) } } : {}),
      };
    },
  };
}

/** Kills all rentals. Their disks stay, and each starts again once its rules can be set. */
async function stopAll(docker: Docker, nodeName: string, abortSignal: AbortSignal): Promise<void> {
  const running = await docker.listContainers({ filters: labelFilter(nodeName), abortSignal });
  await Promise.all(running.map((one) => docker.getContainer(one.Id).kill({ abortSignal })));
}

/** Time in which another listener on a port replies. */
const otherLimitMs = 300;

/** Returns its previous port, otherwise one from its own range. A container that is created again usually keeps its port. */
async function freePort(
  docker: Docker,
  id: InstanceId,
  { ports, bind }: RentalProfileOptions,
  abortSignal: AbortSignal,
): Promise<number> {
  const isOwn = ({ Labels }: { readonly Labels: Record<string, string> }) => ownedOf(Labels)?.instanceId === id;
  const containers = await docker.listContainers({ all: true, abortSignal });
  const [had] = containers.filter(isOwn).map((one) => Number(one.Labels[sshPortLabel] ?? 0));
  const others = containers.filter((one) => !isOwn(one));
  const taken = new Set(
    others.flatMap((one) => [
      Number(one.Labels[sshPortLabel] ?? 0),
      ...one.Ports.map(({ PublicPort }) => PublicPort ?? 0),
    ]),
  );
  const count = ports.last - ports.first + 1;
  const place = [...id].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % count, 0);
  const start = had !== undefined && had >= ports.first && had <= ports.last ? had - ports.first : place;
  const host = bind === "0.0.0.0" ? "127.0.0.1" : bind;
  for (let step = 0; step < count; step++) {
    const port = ports.first + ((start + step) % count);
    if (!taken.has(port) && !(await isPortOpen(host, port, otherLimitMs, abortSignal))) return port;
  }
  const text = `All ports from ${ports.first} to ${ports.last} of this host are taken: its operator must give more with STOKER_RENTAL_PORTS.`;
  throw new DriverError("port_in_use", text, { retryable: true });
}

/** Returns true if the engine can limit the writable layer of a container; depends on its storage driver and mount options. */
async function canLimitDisk(docker: Docker, abortSignal: AbortSignal): Promise<boolean> {
  const info = (await (docker as unknown as { info(options: object): Promise<object> }).info({ abortSignal })) as {
    Driver?: string;
    DockerRootDir?: string;
  };
  if (info.Driver === "btrfs" || info.Driver === "zfs") return true;
  return info.Driver === "overlay2" && hasProjectQuota(info.DockerRootDir ?? "", readMounts());
}

/** `mounts` as in /proc/self/mounts: the longest mount point above the folder must be xfs with project quotas. */
export function hasProjectQuota(folder: string, mounts: string): boolean {
  const above = mounts
    .split("\n")
    .map((line) => line.split(" "))
    .filter(([, point = "-"]) => folder === point || folder.startsWith(point.endsWith("/") ? point : `${point}/`))
    .sort(([, a = ""], [, b = ""]) => b.length - a.length)[0];
  const [, , type = "", options = ""] = above ?? [];
  return type === "xfs" && options.split(",").some((one) => one === "prjquota" || one === "pquota");
}

function readMounts(): string {
  try {
    return readFileSync("/proc/self/mounts", "utf8");
  } catch {
    return "";
  }
}
