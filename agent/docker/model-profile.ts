import { createHash } from "node:crypto";
import type { ContainerCreateOptions } from "dockerode";
import type { ContainerPlan } from "../reconcile/driver.ts";
import { ensureNetwork } from "./bridge-network.ts";
import type { Firewall } from "./firewall.ts";
import { firewalledNetworks } from "./firewalled-networks.ts";
import { gpuDevices } from "./gpu-devices.ts";
import { containerLabels, containerName, networkName } from "./labels.ts";
import type { ContainerProfile } from "./profile.ts";

export function modelProfile(
  facts: ConfigFacts & {
    readonly subnet: string;
    readonly firewall: Firewall;
    readonly onTrouble: (err: unknown) => void;
  },
): ContainerProfile {
  const networks = firewalledNetworks({
    nodeName: facts.nodeName,
    firewall: facts.firewall,
    ensure: (docker, id, signal) => ensureNetwork(docker, id, facts, signal),
  });
  return {
    config: async (plan) => containerConfig(plan, facts),
    prepare: networks.prepare,
    cleanUp: networks.cleanUp,
    // Running instances continue and stay observed if their rules cannot be set again.
    async uphold(ids, docker, signal) {
      await networks.uphold(ids, docker, signal).catch(facts.onTrouble);
    },
    seen: (observed) => observed,
  };
}

const cpuPeriodUs = 100_000;
const mib = 1024 * 1024;

interface ConfigFacts {
  readonly nodeName: string;
  readonly runtimeImage: string;
}

export function containerConfig(plan: ContainerPlan, { nodeName, runtimeImage }: ConfigFacts): ContainerCreateOptions {
  const config = {
    name: containerName(plan),
    Image: plan.image || runtimeImage,
    ...(plan.entrypoint ? { Entrypoint: [...plan.entrypoint] } : {}),
    Cmd: [...plan.args],
    Env: environmentOf(plan),
    User: "2000:0",
    AttachStdout: false,
    AttachStderr: false,
    HostConfig: {
      NetworkMode: networkName(plan.instanceId),
      // An unused address: otherwise the engine's resolver would send DNS queries out of an isolated network.
      Dns: ["192.0.2.1"],
      ReadonlyRootfs: true,
      // Engines load code that they compile from there: only then allow execution.
      Tmpfs: {
        "/tmp": `rw,nosuid,nodev,${plan.scratchBytes ? "exec," : ""}size=${plan.scratchBytes ?? 256 * mib},mode=1777`,
      },
      CapDrop: ["ALL"],
      SecurityOpt: ["no-new-privileges:true"],
      PidsLimit: 4096,
      Memory: plan.memoryBytes,
      // Equal to Memory: no swap, so that a model never slows down by swapping.
      MemorySwap: plan.memoryBytes,
      ...(plan.cpus > 0 ? { CpuPeriod: cpuPeriodUs, CpuQuota: Math.ceil(plan.cpus * cpuPeriodUs) } : {}),
      IpcMode: "private",
      ShmSize: plan.shmBytes > 0 ? plan.shmBytes : 64 * mib,
      LogConfig: { Type: "json-file", Config: { "max-size": "10m", "max-file": "3" } },
      // The agent restarts it with a back-off and records the reason.
      RestartPolicy: { Name: "no" },
      // Fails if the source is missing; the older form would create an empty folder there.
      Mounts: plan.mounts.map(({ source, target, readOnly }) => ({
        Type: "bind" as const,
        Source: source,
        Target: target,
        ReadOnly: readOnly,
      })),
      ...gpuDevices(plan),
    },
  } satisfies ContainerCreateOptions;
  const hash = createHash("sha256").update(JSON.stringify(config)).digest("hex").slice(0, 16);
  return { ...config, Labels: containerLabels(nodeName, plan, hash) };
}

function environmentOf(plan: ContainerPlan): string[] {
  // They choose devices and driver parts: the device request alone decides.
  const own = Object.entries(plan.env).filter(([key]) => !key.toUpperCase().startsWith("NVIDIA_"));
  const fixed = { HF_HUB_OFFLINE: "1", ...(plan.gpuUuids.length === 0 ? { NVIDIA_VISIBLE_DEVICES: "void" } : {}) };
  return [...own, ...Object.entries(fixed)].map(([key, value]) => `${key}=${value}`);
}
