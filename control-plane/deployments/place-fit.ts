// Chooses the part of a host that an instance gets: the smallest GPUs that hold it, or capacity beside others of its
// account.

import { whyImageNotAllowed } from "../../proto/allowed-image.ts";
import type { GpuType } from "../../proto/gpu.ts";
import { isProcessorSlot } from "../../proto/gpu-vendors.ts";
import type { AccountId, HostId } from "../../proto/ids.ts";
import {
  type ForeignEngine,
  imageSetting,
  isForeignEngine,
  isModelEngine,
  programSetting,
} from "../../proto/model-engines.ts";
import { type Gpu, type GpuClaim, type HostView, sleepersPerGpu, sleepPool } from "../fleet/host.ts";
import type { Adoptable, AdoptedClaim } from "../fleet/store.ts";
import type { Engine } from "./deployment.ts";
import { resourcesOf } from "./resources.ts";

export interface Fit extends Placed {
  /** It shares a GPU that its account already uses. */
  readonly isJoining: boolean;
  /** Free afterwards: GPUs of the type, or memory of the shared GPU. */
  readonly left: number;
}

/** Undefined when it does not fit. The host has passed the filter. */
export function fitOn(want: Want, host: HostView): Fit | undefined {
  if (want.gpusPerInstance === 0) return withoutGpus(want, host);
  if (mayTakeTurns(want, host)) return inTurn(want, host);
  const joined = mayShare(want) ? smallest(sharedGpus(host, want), want.memoryBytes) : undefined;
  if (joined) return granted(want, host, [joined], joined.freeBytes - want.memoryBytes);
  if (isReserved(want)) return undefined;
  const free = freeGpus(host, want.gpu);
  const taken = choose(want, free);
  return taken && granted(want, host, taken, free.length - taken.length);
}

/** Its GPU may be used by others while it sleeps, if the agent there obeys. */
export const mayTakeTurns = (want: Want, host: HostView): boolean =>
  want.sleeps === true && host.inventory.sleeps === true;

/** A free GPU, so that more are awake at a time; else the one with the fewest instances in turn. */
function inTurn(want: Want, host: HostView): Fit | undefined {
  const free = freeGpus(host, want.gpu);
  const taken = isReserved(want) ? undefined : choose(want, free);
  const alone = taken && granted(want, host, taken, free.length - taken.length);
  if (alone) return { ...alone, ...partInTurn(want, host, alone.gpus), isInTurn: true };
  if (want.gpusPerInstance > 1) return undefined;
  const [fewest] = gpusInTurn(host, want);
  if (!fewest) return undefined;
  const grantBytes = turnGrantBytes(want, fewest.gpu);
  if (lacksMemory(host, grantBytes)) return undefined;
  const gpus = [fewest.gpu];
  return {
    host: host.id,
    revision: host.revision,
    gpus,
    grantBytes,
    left: -fewest.freeBytes,
    ...partInTurn(want, host, gpus),
    isJoining: false,
    isInTurn: true,
  };
}

/** Share of the GPU while awake: a part if its memory is bounded, so that other instances of its account fit. */
function partInTurn(want: Want, host: HostView, [gpu]: readonly Gpu[]): Pick<Placed, "gpuShare" | "gpuMemoryBytes"> {
  const isBounded = want.isMemoryBound === true && isPartial(want) && host.inventory.wakesByAccount === true;
  if (!gpu || !isBounded || isProcessorSlot(gpu)) return { gpuShare: 1, gpuMemoryBytes: 0 };
  return { gpuShare: Math.min(1, want.memoryBytes / gpu.memoryBytes), gpuMemoryBytes: want.memoryBytes };
}

/** Memory of a process whose model is unloaded. */
const asleepBytes = 256 * 1024 * 1024;

/** Host memory of an instance beside others that use its GPU in turn. vLLM keeps its weights in the memory of the host. */
const turnGrantBytes = ({ engine, memoryBytes }: { readonly engine: string; readonly memoryBytes: number }, gpu: Gpu) =>
  asleepBytes + (engine === "vllm" && !isProcessorSlot(gpu) ? memoryBytes : 0);

/** Claims all of a shared GPU, because the instance's share is unknown, unless instances use the GPU in turn. */
export function adoptedClaim(one: Adoptable, inventory: HostView["inventory"]): AdoptedClaim {
  const gpus = inventory.gpus.filter(({ uuid }) => one.gpuUuids.includes(uuid));
  const [first] = gpus;
  const isInTurn = one.sleeps && inventory.sleeps === true && first !== undefined;
  return {
    grantBytes:
      isInTurn && one.isJoining ? turnGrantBytes(one, first) : resourcesOf(one.gpuUuids, inventory).memoryBytes,
    gpus: gpus.map((gpu) => {
      const memoryBytes = Math.max(1, gpu.memoryBytes);
      return { uuid: gpu.uuid, memoryBytes, claimBytes: isInTurn ? turnBytes(gpu) : memoryBytes };
    }),
    claimant: isInTurn ? sleepPool : undefined,
  };
}

/** GPUs that take one more instance in turn and are large enough for it alone; those with the fewest first. */
function gpusInTurn(host: Held, want: Want): readonly FreeGpu[] {
  return host.claims
    .flatMap((claim) => {
      const gpu = host.inventory.gpus.find(({ uuid }) => uuid === claim.gpuUuid);
      if (claim.account !== sleepPool || gpu?.type !== want.gpu || !gpu.isHealthy || !isUsable(want, gpu)) return [];
      if (gpu.memoryBytes < want.memoryBytes) return [];
      const freeBytes = gpu.memoryBytes - (claim.memoryBytes ?? gpu.memoryBytes);
      return freeBytes >= turnBytes(gpu) ? [{ gpu, freeBytes, claim }] : [];
    })
    .sort((a, b) => b.freeBytes - a.freeBytes || byIndex(a.gpu, b.gpu));
}

/** Memory that an instance claims of a GPU that sleeping instances use in turn. */
export const turnBytes = ({ memoryBytes }: Pick<Gpu, "memoryBytes">): number =>
  Math.max(1, Math.floor(memoryBytes / sleepersPerGpu));

/** A GPU is shared only when memory has a fixed upper bound. */
export const mayShare = (want: Want) => want.sharesWith !== undefined && isPartial(want);

const isPartial = ({ gpusPerInstance, memoryBytes, engine }: Want) =>
  gpusPerInstance === 1 && memoryBytes > 0 && isModelEngine(engine);

/** In a cluster a GPU is a resource or claim of one Pod. */
const givesWholeGpus = ({ inventory }: HostView) => inventory.drivers.includes("kubernetes");

/** Free GPUs are reserved for other accounts. */
export const isReserved = (want: Want) => want.maxNewGpus !== undefined && want.gpusPerInstance > want.maxNewGpus;

function withoutGpus(want: Want, host: HostView): Fit | undefined {
  const grantBytes = want.engine === "agent_instance" ? want.memoryBytes : 0;
  const left = host.inventory.memoryBytes - host.grantedMemoryBytes - grantBytes;
  if (grantBytes > 0 && left < 0) return undefined;
  const none = { gpus: [], gpuMemoryBytes: 0, gpuShare: 1, isJoining: false };
  return { host: host.id, revision: host.revision, ...none, grantBytes, left: grantBytes > 0 ? left : 0 };
}

/** Returns exclusive GPUs for an instance; undefined when the free ones cannot hold it. */
function choose(want: Want, free: readonly FreeGpu[]): readonly FreeGpu[] | undefined {
  const count = want.gpusPerInstance;
  const usable = free.filter(({ gpu }) => isUsable(want, gpu)).sort(bySize);
  if (usable.length < count) return undefined;
  // Shares of host memory add up; a model split over real GPUs needs its part on each, all of one kind.
  if (usable.every(({ gpu }) => isProcessorSlot(gpu))) {
    for (let start = 0; start + count <= usable.length; start++) {
      const window = usable.slice(start, start + count);
      if (memoryOf(window) >= want.memoryBytes) return window;
    }
    return undefined;
  }
  const each = Math.ceil(want.memoryBytes / count);
  const fitting = usable.filter(({ freeBytes }) => freeBytes >= each);
  if (count === 1) return fitting.slice(0, 1).length === 1 ? fitting.slice(0, 1) : undefined;
  const kinds = [...Map.groupBy(fitting, ({ gpu }) => (gpu.type === "other" ? gpu.name : "")).values()];
  return kinds.find((kind) => kind.length >= count)?.slice(0, count);
}

function granted(want: Want, host: HostView, taken: readonly FreeGpu[], left: number): Fit | undefined {
  const gpus = taken.map(({ gpu }) => gpu).sort(byIndex);
  const only = gpus[0] as Gpu;
  const isShared = mayShare(want) && !isProcessorSlot(only) && !givesWholeGpus(host);
  const gpuShare = isShared ? Math.min(1, want.memoryBytes / only.memoryBytes) : 1;
  const uuids = gpus.map((gpu) => gpu.uuid);
  const { memoryBytes: grantBytes } = resourcesOf(uuids, host.inventory, gpuShare);
  if (lacksMemory(host, grantBytes)) return undefined;
  return {
    ...{ host: host.id, revision: host.revision, gpus, gpuShare, grantBytes, left },
    gpuMemoryBytes: isShared ? want.memoryBytes : 0,
    isJoining: taken[0]?.claim !== undefined,
  };
}

/** An operator who offers more shares than there is memory has accepted overcommitment. */
function lacksMemory(host: HostView, grantBytes: number): boolean {
  const { gpus, memoryBytes } = host.inventory;
  const offered = gpus.reduce((sum, gpu) => sum + (isProcessorSlot(gpu) ? gpu.memoryBytes : 0), 0);
  return offered <= memoryBytes && host.grantedMemoryBytes + grantBytes > memoryBytes;
}

const smallest = (gpus: readonly FreeGpu[], bytes: number) =>
  gpus.filter(({ freeBytes }) => freeBytes >= bytes).sort(bySize)[0];
const bySize = (a: FreeGpu, b: FreeGpu) => a.freeBytes - b.freeBytes || byIndex(a.gpu, b.gpu);
const memoryOf = (gpus: readonly FreeGpu[]) => gpus.reduce((sum, one) => sum + one.freeBytes, 0);

export interface FreeGpu {
  readonly gpu: Gpu;
  readonly freeBytes: number;
  /** The account's claim on the shared GPU. */
  readonly claim: GpuClaim | undefined;
}

type Held = Pick<HostView, "inventory" | "claims" | "gpuMemoryUsed">;

/** Share used by drivers and displays; above it an unknown process uses the GPU. */
const idleShare = 0.25;

/** Unclaimed, healthy, and unused by unknown processes. */
export function freeGpus(host: Held, type: GpuType): readonly FreeGpu[] {
  const claimed = new Set(host.claims.map((claim) => claim.gpuUuid));
  return host.inventory.gpus.flatMap((gpu) => {
    if (gpu.type !== type || !gpu.isHealthy || claimed.has(gpu.uuid)) return [];
    // An instance with the whole GPU from before the split would share it with users of its slices.
    if (gpu.parentUuid !== undefined && claimed.has(gpu.parentUuid)) return [];
    const used = host.gpuMemoryUsed.get(gpu.uuid) ?? 0;
    if (used > gpu.memoryBytes * idleShare) return [];
    return [{ gpu, freeBytes: gpu.memoryBytes - used, claim: undefined }];
  });
}

/** GPUs with free capacity beside other instances of the account. */
function sharedGpus(host: Held, { gpu: type, sharesWith }: Want): readonly FreeGpu[] {
  if (sharesWith === undefined) return [];
  return host.claims.flatMap((claim) => {
    if (claim.account !== sharesWith || claim.memoryBytes === undefined) return [];
    const gpu = host.inventory.gpus.find((one) => one.uuid === claim.gpuUuid);
    if (gpu?.type !== type || !gpu.isHealthy || isProcessorSlot(gpu)) return [];
    if (host.claims.some(({ gpuUuid }) => gpuUuid === gpu.parentUuid)) return [];
    const used = Math.max(claim.memoryBytes, host.gpuMemoryUsed.get(gpu.uuid) ?? 0);
    return used < gpu.memoryBytes ? [{ gpu, freeBytes: gpu.memoryBytes - used, claim }] : [];
  });
}

/** True when the GPU is usable for this request: a slice cannot be rented out or combined with others. */
export const isUsable = (want: Pick<Want, "engine" | "gpusPerInstance">, gpu: Gpu) =>
  !isSlice(gpu) || (want.engine !== "container" && want.gpusPerInstance === 1);

/** A MIG slice: like a small GPU of its own, with isolated memory and faults. */
export const isSlice = (gpu: Pick<Gpu, "migProfile" | "uuid">) => gpu.migProfile !== "" || gpu.uuid.startsWith("MIG-");
const byIndex = (a: Gpu, b: Gpu) => a.index - b.index || (a.uuid < b.uuid ? -1 : 1);

/** Returns why the host is excluded, or undefined. */
export function refuse(want: Want, host: HostView): string | undefined {
  if (!mayUseHost(want, host)) return `not the required host (${want.host})`;
  if (want.avoided?.has(host.id)) return "an instance could not be placed there; this is tried again within minutes";
  if (host.state !== "live") return `${host.state}: silent for ${Math.round(host.silentMs / 1000)} s`;
  if (!host.schedulable) return host.condition || "its data path is not verified yet";
  if (want.gpusPerInstance > 0 && !canUseGpus(want.engine, host.inventory))
    return "its container engine has no nvidia runtime; install the NVIDIA container toolkit";
  const { drivers, rentalImages, rentalsUnavailable } = host.inventory;
  switch (want.engine) {
    case "container":
      if (rentalImages?.includes(want.rentalImage ?? "")) return undefined;
      return rentalsUnavailable || `it does not offer the image ${want.rentalImage ?? ""}`;
    case "custom":
      return whyNoContainer(want, host);
    case "agent_instance":
      return whyNoContainer(want, host) ?? (host.inventory.containers?.volumesUnavailable || undefined);
    case "external":
      return undefined;
    case "vllm":
    case "sglang":
    case "llamacpp":
      // A host lists them as drivers once its operator has set an image or a program for them.
      if (drivers.includes(want.engine)) return undefined;
      return whyNoEngine(want.engine, host);
    default:
      if (runsContainers(drivers) || drivers.includes("process")) return undefined;
      return "it has no driver that starts model servers";
  }
}

const runsContainers = (drivers: readonly string[]) => drivers.includes("docker") || drivers.includes("kubernetes");

function whyNoEngine(engine: ForeignEngine, { inventory: { drivers, containers } }: HostView): string {
  const usesContainers = runsContainers(drivers) && (containers?.unavailable ?? "") === "";
  if (usesContainers) return `its operator set no image for ${engine} (${imageSetting(engine)})`;
  const setting = programSetting(engine);
  return setting === undefined
    ? `it runs no containers, which ${engine} requires`
    : `its operator set no program for ${engine} (${setting})`;
}

/** True when no host is required, or it is this one. */
export const mayUseHost = ({ host: required }: Want, host: HostView): boolean =>
  required === undefined || required === host.id || required === host.hostname;

/**
 * Reports whether instances of the engine can use the host's GPUs: containers need the nvidia runtime. For rentals the agent
 * decides, and offers no images without it.
 */
export function canUseGpus(engine: Want["engine"], inventory: HostView["inventory"]): boolean {
  const { drivers, nvidiaDriverVersion, hasNvidiaRuntime, containers } = inventory;
  // Such an agent runs installed engines as processes.
  const isProcess = isForeignEngine(engine) && (containers?.unavailable ?? "") !== "";
  const isContainer =
    engine === "stoker" ? !drivers.includes("process") : engine !== "external" && engine !== "container" && !isProcess;
  return !isContainer || nvidiaDriverVersion === "" || hasNvidiaRuntime;
}

/** The agent would refuse it, and the instance would stay assigned there. */
function whyNoContainer({ image }: Want, { inventory }: HostView): string | undefined {
  if (!runsContainers(inventory.drivers)) return "it has no container engine";
  const rules = inventory.containers;
  if (rules === undefined) return undefined;
  if (rules.unavailable !== "") return rules.unavailable;
  switch (image && whyImageNotAllowed(image, rules.images)) {
    case "unlisted":
      return `its operator does not allow the image ${image} (STOKER_ALLOWED_IMAGES)`;
    case "no_digest":
      return `its operator allows the image ${image} only by digest (name@sha256:...)`;
    default:
      return undefined;
  }
}

export interface Want {
  readonly gpu: GpuType;
  /** 0: needs none (an external engine). */
  readonly gpusPerInstance: number;
  /** Over all GPUs of the instance; 0 unknown. */
  readonly memoryBytes: number;
  readonly engine: Engine;
  /** Its account: refusals mention the account's own claims. */
  readonly account?: AccountId | undefined;
  /** Id or name of the required host; undefined: any. */
  readonly host: string | undefined;
  /** Image of a rented container, by the name under which hosts offer it. */
  readonly rentalImage?: string | undefined;
  /** Image of a model server or agent instance with its own. */
  readonly image?: string | undefined;
  /** It sleeps while it is not used, so that others may use its GPU. */
  readonly sleeps?: boolean;
  /** `memoryBytes` is its upper bound. */
  readonly isMemoryBound?: boolean;
  /** Its account, if it may share a GPU with other instances of that account; then `memoryBytes` is its upper bound. */
  readonly sharesWith?: AccountId | undefined;
  /** Maximum GPUs it may newly claim: others are reserved for minimums. Undefined: any free ones. */
  readonly maxNewGpus?: number | undefined;
  /** Weights to load: hosts that have them come first. */
  readonly weights?: string | undefined;
  /** Hosts on which its last placement failed. */
  readonly avoided?: ReadonlySet<HostId> | undefined;
  /** Hosts with sibling instances, and their count: other hosts are preferred. */
  readonly spread?: ReadonlyMap<HostId, number> | undefined;
}

export interface Placed {
  readonly host: HostId;
  readonly revision: bigint;
  readonly gpus: readonly Gpu[];
  /** Memory on its shared GPU; 0: exclusive GPUs. */
  readonly gpuMemoryBytes: number;
  /** Share of each of its GPUs. */
  readonly gpuShare: number;
  /** Granted host memory. */
  readonly grantBytes: number;
  /** Others may use its GPUs while it sleeps. */
  readonly isInTurn?: boolean;
}
