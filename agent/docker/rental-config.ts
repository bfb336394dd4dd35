// Builds the configuration of a rented container: root inside with the few capabilities that administration needs, a writable
// root that is removed with it, its own network, SSH published, and nothing of ours. Shares nothing with model-profile.ts on
// purpose, so that loosening one never loosens the other.
import { createHash } from "node:crypto";
import type { ContainerCreateOptions } from "dockerode";
import type { ContainerPlan } from "../reconcile/driver.ts";
import { gpuDevices } from "./gpu-devices.ts";
import { containerLabels, containerName, networkName } from "./labels.ts";
import { rentalInit } from "./rental-init.ts";

const cpuPeriodUs = 100_000;
export const sshPort = 22;
/** Label with the container's port, for port selection while it is stopped. */
export const sshPortLabel = "stoker.ssh-port";

/** The engine's default without raw sockets, device nodes and the audit log. */
const capabilities = [
  "CHOWN",
  "DAC_OVERRIDE",
  "FOWNER",
  "FSETID",
  "KILL",
  "NET_BIND_SERVICE",
  "SETFCAP",
  "SETGID",
  "SETPCAP",
  "SETUID",
  "SYS_CHROOT",
];

interface RentalFacts {
  readonly nodeName: string;
  readonly dns: readonly string[];
  readonly bind: string;
  readonly publishedPort: number;
  /** 0: no limit. Only where the engine's storage can. */
  readonly diskBytes: number;
}

export function rentalConfig(plan: ContainerPlan, facts: RentalFacts): ContainerCreateOptions {
  const { sshKeys = [], firstStart = "" } = plan.rental ?? {};
  const config = {
    name: containerName(plan),
    Image: plan.image,
    Hostname: plan.deployId.slice(0, 63),
    Entrypoint: ["/bin/sh", "-c", rentalInit],
    Cmd: [],
    Env: [
      `STOKER_SSH_KEYS=${sshKeys.join("\n")}`,
      `STOKER_FIRST_START=${Buffer.from(firstStart).toString("base64")}`,
      ...(plan.gpuUuids.length === 0 ? ["NVIDIA_VISIBLE_DEVICES=void"] : []),
    ],
    User: "0:0",
    WorkingDir: "/",
    AttachStdout: false,
    AttachStderr: false,
    ExposedPorts: { [`${sshPort}/tcp`]: {} },
    HostConfig: {
      NetworkMode: networkName(plan.instanceId),
      Dns: [...facts.dns],
      ReadonlyRootfs: false,
      CapDrop: ["ALL"],
      CapAdd: capabilities,
      PidsLimit: 32_768,
      Memory: plan.memoryBytes,
      MemorySwap: plan.memoryBytes,
      ...(plan.cpus > 0 ? { CpuPeriod: cpuPeriodUs, CpuQuota: Math.ceil(plan.cpus * cpuPeriodUs) } : {}),
      IpcMode: "private",
      ShmSize: plan.shmBytes,
      LogConfig: { Type: "json-file", Config: { "max-size": "10m", "max-file": "3" } },
      RestartPolicy: { Name: "no" },
      ...(facts.diskBytes > 0 ? { StorageOpt: { size: String(facts.diskBytes) } } : {}),
      ...gpuDevices(plan),
    },
  } satisfies ContainerCreateOptions;
  // Without the port: a container that ended is started again as it is.
  const hash = createHash("sha256").update(JSON.stringify(config)).digest("hex").slice(0, 16);
  const published = String(facts.publishedPort);
  return {
    ...config,
    HostConfig: {
      ...config.HostConfig,
      PortBindings: { [`${sshPort}/tcp`]: [{ HostIp: facts.bind, HostPort: published }] },
    },
    Labels: { ...containerLabels(facts.nodeName, { ...plan, port: sshPort }, hash), [sshPortLabel]: published },
  };
}
