// Answers whether a deployment would fit, where, and at what price. Nothing is deployed.
import { type GpuType, inDisplayOrder } from "../../proto/gpu.ts";
import { isProcessorSlot } from "../../proto/gpu-vendors.ts";
import type { AccountId, DeploymentId, HostId } from "../../proto/ids.ts";
import { isHubRepo } from "../../proto/weights-address.ts";
import type { LookAtRepo } from "../catalog/hub-look.ts";
import type { ServedModel } from "../catalog/served-model.ts";
import { type Gpu, gpuTypesOn, type HostView } from "../fleet/host.ts";
import { wantOf } from "./choose-hosts.ts";
import { type CreateDeps, type DeployRequest, hasKnownFiles, type Owner, wouldCreate } from "./create.ts";
import { type HfRequest, hubDeployRequest } from "./create-by.ts";
import type { Deployment, Engine } from "./deployment.ts";
import { baseModelUnknown, DeploymentNotFound, repositoryUnknown } from "./errors.ts";
import type { ShapeOfRepo } from "./expected-memory.ts";
import { estimateMemory } from "./memory-estimate.ts";
import { canUseGpus, isUsable, type Placed, type Want } from "./place-fit.ts";
import { createPlacementIndex } from "./place-index.ts";
import { type Rejection, rejections } from "./place-reasons.ts";
import { type GpuMinimums, maxNewByType, maxNewGpus } from "./place-reserve.ts";
import { expectedMemoryBytes } from "./resources.ts";
import type { DeploymentStore, NewDeployment } from "./store.ts";

interface PlacementPreviewDeps extends Omit<CreateDeps, "store" | "shapeOf"> {
  readonly store: Pick<DeploymentStore, "get" | "instances" | "refusalOf">;
  readonly hosts: (only?: readonly HostId[]) => Promise<readonly HostView[]>;
  readonly shapeOf: ShapeOfRepo;
  /** Bytes of the smallest weights that the catalogue of models has of a repository; 0: unknown. */
  readonly leastBytes: (repo: string) => number;
  readonly resolve: (name: string, account: AccountId) => Pick<ServedModel, "deployId" | "owner"> | undefined;
  /** Nano-USD per hour of one GPU, by type, awake by default. */
  readonly hourRates: (kind?: "gpu" | "gpu_asleep") => Promise<ReadonlyMap<string, bigint>>;
  readonly reserve: (gpu: GpuType) => Promise<{ readonly minimums: GpuMinimums }>;
}

export interface PlacementPreview {
  /** Every GPU count and type that at least one host has. Throws baseModelUnknown. */
  gpus(
    caller: Pick<Owner, "account">,
    need: { readonly source: string; readonly baseModel: string },
  ): Promise<readonly GpuOffer[]>;
  /** Placement of a new deployment. Throws as its creation would, and modelUnknown for a repository that the hub does not have. */
  dryRunNew(caller: Owner, request: DeployRequest): Promise<NewDryRun>;
  /** The same for a hub model of any task. */
  dryRunHf(caller: Owner, request: HfRequest): Promise<NewDryRun>;
  /** Nano-USD per hour of an instance with GPUs of its own, awake and asleep, before discounts; 0n: no price. */
  priceOf(
    deployment: Pick<Deployment, "gpu" | "numGpus">,
  ): Promise<{ readonly hourRate: bigint; readonly asleepHourRate: bigint }>;
  /** Devices of a deployment with the GPU type `other`: of its instances, else those that it may get. */
  devicesOf(deployment: Pick<Deployment, "id" | "gpu">): Promise<readonly string[]>;
  /** Placement of one more instance. Throws DeploymentNotFound. */
  dryRun(caller: Pick<Owner, "account">, id: DeploymentId): Promise<DryRun>;
}

export function createPlacementPreview(deps: PlacementPreviewDeps): PlacementPreview {
  const { store, hosts, hourRates, reserve, demoModel } = deps;
  const shapeOf = rememberLookups(deps.shapeOf);
  const found = rememberLookups(async (...[repo, revision, token]: Parameters<LookAtRepo>) => {
    const look = await deps.lookAtRepo(repo, revision, token);
    return look.kind === "unreachable" ? undefined : look;
  });
  const lookAtRepo: LookAtRepo = async (...request) => (await found(...request)) ?? { kind: "unreachable" };

  /** Memory that one instance needs; 0: unknown. */
  async function needOf(source: string, baseModel: string): Promise<number> {
    if (source !== "") return needOfWeights(source);
    if (baseModel === "") return 0;
    const offered = deps.resolve(baseModel, "" as AccountId);
    const base = offered && (await store.get(offered.deployId, offered.owner));
    if (base) return base.memoryBytes || expectedMemoryBytes(base.weights.sizeBytes ?? 0);
    if (!demoModel(baseModel)) throw baseModelUnknown(baseModel);
    return needOfWeights(baseModel);
  }

  /** Memory for one sequence of full length: the minimum that a GPU must have. */
  async function needOfWeights(repo: string): Promise<number> {
    const demo = demoModel(repo);
    if (demo) return demo.memoryBytes({ maxBatchSize: 1, contextLength: demo.contextLength });
    const shape = isHubRepo(repo) ? await shapeOf(repo, "main", undefined) : undefined;
    return shape ? estimateMemory(shape, { maxBatchSize: 1, contextLength: 0, gpus: 1 }) : 0;
  }

  /** Throws modelUnknown. */
  async function repositoryOf({ weights }: NewDeployment, { hf }: DeployRequest): Promise<NewDryRun["repository"]> {
    const { repo, revision } = weights;
    if (!isHubRepo(repo) || hasKnownFiles(weights) || demoModel(repo)) return "not_checked";
    const look = await lookAtRepo(repo, revision, hf?.token);
    const fields = { repo: hf === undefined ? "model_name" : "hf.repo", revision: "hf.revision" };
    if (look.kind === "missing") throw repositoryUnknown(repo, revision, fields);
    return look.kind === "found" ? "found" : "unknown";
  }

  async function dryRunNew(caller: Owner, request: DeployRequest): Promise<NewDryRun> {
    const next = await wouldCreate({ ...deps, shapeOf, lookAtRepo }, caller, request);
    const { engine, gpu, numGpus, minInstances, account, weights } = next;
    const memoryBytes = next.memoryBytes || Math.ceil(deps.leastBytes(weights.repo));
    const [views, rates, { minimums }] = await Promise.all([hosts(), hourRates(), reserve(gpu)]);
    const newGpus = { maxNewGpus: maxNewGpus(minimums, views, account, gpu) };
    const hourRate = (rates.get(gpu) ?? 0n) * BigInt(numGpus * minInstances);
    const placed = dryRun({ ...wantOf({ ...next, memoryBytes }), ...newGpus }, views);
    // Whatever the hub has of it: only its known weights exceed every host.
    const isTooLarge = placed.host === undefined && dryRun({ ...wantOf(next), ...newGpus }, views).host !== undefined;
    const repository = isTooLarge ? "not_checked" : await repositoryOf(next, request);
    return { ...placed, engine, memoryBytes, hourRate, repository };
  }

  return {
    async gpus({ account }, { source, baseModel }) {
      const [need, views, rates] = await Promise.all([needOf(source, baseModel), hosts(), hourRates()]);
      const maxNew = await maxNewByType(views, account, reserve);
      return gpuOffers(views, need, rates, (gpu) => maxNew.get(gpu));
    },
    dryRunNew,
    dryRunHf: async (caller, request) => dryRunNew(caller, await hubDeployRequest({ ...deps, lookAtRepo }, request)),
    async priceOf({ gpu, numGpus }) {
      const [awake, asleep] = await Promise.all([hourRates(), hourRates("gpu_asleep")]);
      const rateOf = (rates: ReadonlyMap<string, bigint>) => (rates.get(gpu) ?? 0n) * BigInt(numGpus);
      return { hourRate: rateOf(awake), asleepHourRate: rateOf(asleep) };
    },
    async devicesOf({ id, gpu }) {
      if (gpu !== "other") return [];
      const instances = await store.instances(id);
      if (instances.length === 0) return deviceNames(usableGpus(await hosts(), gpu));
      const uuids = Map.groupBy(instances, ({ hostId }) => hostId);
      const own = (await hosts([...uuids.keys()])).flatMap(({ id: host, inventory }) =>
        inventory.gpus.filter(({ uuid }) => uuids.get(host)?.some(({ gpuUuids }) => gpuUuids.includes(uuid))),
      );
      return deviceNames(own);
    },
    async dryRun({ account }, id) {
      const deployment = await store.get(id, account);
      if (!deployment) throw new DeploymentNotFound();
      const spread = new Map<HostId, number>();
      for (const { hostId } of await store.instances(id)) spread.set(hostId, (spread.get(hostId) ?? 0) + 1);
      const views = await hosts();
      const { minimums } = await reserve(deployment.gpu);
      const maxNew = maxNewGpus(minimums, views, account, deployment.gpu);
      return dryRun({ ...wantOf(deployment, spread), maxNewGpus: maxNew }, views);
    },
  };
}

interface GpuOffer {
  readonly gpu: GpuType;
  readonly count: number;
  /** Nano-USD for all its GPUs; 0n without a price. */
  readonly hourRate: bigint;
  readonly isAvailable: boolean;
  /** The cheapest free GPU that holds the requested weights. */
  readonly isRecommended: boolean;
  /** Devices that the type `other` stands for; empty for other types. */
  readonly devices: readonly string[];
}

/** Result for a deployment that was not created. */
export interface NewDryRun extends DryRun {
  readonly engine: Engine;
  /** Expected memory of one instance over all its GPUs; 0: unknown. */
  readonly memoryBytes: number;
  /** Nano-USD of the instances that always run; 0n without a price. */
  readonly hourRate: bigint;
  /** `unknown`: the hub cannot be reached. `not_checked`: the weights are known, or are not on the hub. */
  readonly repository: "found" | "unknown" | "not_checked";
}

interface DryRun {
  /** Host of the next instance; undefined: none. */
  readonly host: HostId | undefined;
  /** For every host that cannot take it. */
  readonly refused: readonly Rejection[];
}

const counts = [1, 2, 4, 8];

/** Returns every size that at least one host has, in display order. `memoryBytes`: need of the model; 0: unknown. */
export function gpuOffers(
  allHosts: readonly HostView[],
  memoryBytes: number,
  hourRates: ReadonlyMap<string, bigint>,
  /** Maximum GPUs that the account may newly claim. */
  maxNew: (gpu: GpuType) => number | undefined = () => undefined,
): readonly GpuOffer[] {
  const hosts = allHosts.filter(({ inventory }) => canUseGpus("stoker", inventory));
  const index = createPlacementIndex(hosts);
  const couldHave = (gpu: GpuType, count: number, bytes: number) =>
    index.place({
      ...{ gpu, gpusPerInstance: count, memoryBytes: bytes, maxNewGpus: maxNew(gpu) },
      ...{ engine: "stoker", host: undefined },
    }) !== undefined;
  const sizes = inDisplayOrder(gpuTypesOn(hosts)).flatMap((gpu) => {
    const maxOnHost = (count: number) =>
      Math.max(0, ...hosts.map(({ inventory }) => inventory.gpus.filter((one) => couldBe(gpu, count, one)).length));
    return counts.filter((count) => count <= maxOnHost(count)).map((count) => ({ gpu, count }));
  });
  const offers = sizes.map(({ gpu, count }) => ({
    gpu,
    count,
    hourRate: (hourRates.get(gpu) ?? 0n) * BigInt(count),
    isAvailable: couldHave(gpu, count, 0),
    holds: couldHave(gpu, count, memoryBytes),
  }));
  const others = deviceNames(usableGpus(hosts, "other"));
  const cheapest = offers
    .filter(({ holds }) => holds)
    .sort((a, b) => (a.hourRate === b.hourRate ? a.count - b.count : a.hourRate < b.hourRate ? -1 : 1))[0];
  return offers.map((offer) => {
    const { holds: _, ...rest } = offer;
    return { ...rest, isRecommended: offer === cheapest, devices: offer.gpu === "other" ? others : [] };
  });
}

/** GPU slices cannot be combined. */
const couldBe = (type: GpuType, count: number, gpu: Gpu) =>
  gpu.type === type && isUsable({ engine: "stoker", gpusPerInstance: count }, gpu);

/** GPUs of the type that an instance may get, now or once they are free. */
const usableGpus = (hosts: readonly HostView[], type: GpuType): readonly Gpu[] =>
  hosts
    .filter((host) => host.state === "live" && host.schedulable && canUseGpus("stoker", host.inventory))
    .flatMap(({ inventory }) => inventory.gpus.filter((gpu) => gpu.type === type && gpu.isHealthy));

const maxDeviceNames = 8;
const maxDeviceNameLength = 64;

/** Names of devices for customers. A host chooses the names of its GPUs, so their number, length and characters are limited. */
function deviceNames(gpus: readonly Gpu[]): readonly string[] {
  const shown = gpus.map((gpu) => (isProcessorSlot(gpu) ? "processor slot" : printable(gpu.name)));
  const names = [...new Set(shown)].filter((name) => name !== "").toSorted();
  return names.length > maxDeviceNames ? [...names.slice(0, maxDeviceNames), "other GPUs"] : names;
}

const printable = (name: string): string =>
  name
    .replaceAll(/[^ -~]+/g, " ")
    .trim()
    .slice(0, maxDeviceNameLength)
    .trimEnd();

export function dryRun(want: Want, hosts: readonly HostView[]): DryRun {
  return { host: createPlacementIndex(hosts).place(want)?.host, refused: rejections(want, hosts) };
}

type Lookup<Value> = (
  repo: string,
  revision: string,
  token: string | undefined,
  format?: Parameters<ShapeOfRepo>[3],
) => Promise<Value | undefined>;

const foundMs = 600_000;
/** Also after a failed lookup: the hub may be back soon. */
const unknownMs = 60_000;
const maxRemembered = 200;
const maxConcurrent = 4;
/** Lookups per minute, two requests each: below the hub's limit for an address without a token. */
const maxPerMinute = 30;
const minuteMs = 60_000;

interface Remembered<Value> {
  readonly value: Value | undefined;
  readonly untilMs: number;
}

/**
 * Bounds lookups at the hub, so that previews cause no rate limits (429) for deployments and downloads. Beyond the bounds the result is
 * unknown (undefined). Results of a token are not cached.
 */
export function rememberLookups<Value>(
  fetchValue: Lookup<Value>,
  nowMs: () => number = () => performance.now(),
): Lookup<Value> {
  const remembered = new Map<string, Remembered<Value>>();
  const running = new Map<string, Promise<Value | undefined>>();
  let concurrent = 0;
  let started = 0;
  let minuteFrom = Number.NEGATIVE_INFINITY;

  function mayStart(): boolean {
    if (nowMs() - minuteFrom >= minuteMs) {
      minuteFrom = nowMs();
      started = 0;
    }
    return concurrent < maxConcurrent && started < maxPerMinute;
  }

  async function fetchNow(...request: Parameters<Lookup<Value>>): Promise<Value | undefined> {
    concurrent += 1;
    started += 1;
    try {
      return await fetchValue(...request);
    } finally {
      concurrent -= 1;
    }
  }

  async function fetchAndCache(
    key: string,
    ...[repo, revision, , format]: Parameters<Lookup<Value>>
  ): Promise<Value | undefined> {
    try {
      const value = await fetchNow(repo, revision, undefined, format);
      remembered.delete(key);
      remembered.set(key, { value, untilMs: nowMs() + (value ? foundMs : unknownMs) });
      const [oldest] = remembered.keys();
      if (remembered.size > maxRemembered && oldest !== undefined) remembered.delete(oldest);
      return value;
    } finally {
      running.delete(key);
    }
  }

  return async (repo, revision, token, format) => {
    if (token !== undefined) return mayStart() ? fetchNow(repo, revision, token, format) : undefined;
    const key = `${repo}@${revision} ${format ?? ""}`;
    const known = remembered.get(key);
    if (known && nowMs() < known.untilMs) return known.value;
    const current = running.get(key);
    if (current) return current;
    if (!mayStart()) return undefined;
    const next = fetchAndCache(key, repo, revision, undefined, format);
    running.set(key, next);
    return next;
  };
}

type Placement = ({ readonly ok: true } & Placed) | { readonly ok: false; readonly rejections: readonly Rejection[] };

export function place(want: Want, hosts: readonly HostView[]): Placement {
  const placed = createPlacementIndex(hosts).place(want);
  return placed ? { ok: true, ...placed } : { ok: false, rejections: rejections(want, hosts) };
}
