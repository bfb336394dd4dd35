// Answers whether a deployment would fit, where, and at what price. Nothing is deployed.
import type { GpuType } from "../../proto/gpu.ts";
import type { AccountId, DeploymentId, HostId } from "../../proto/ids.ts";
import type { ServedModel } from "../catalog/served-model.ts";
import type { HostView } from "../fleet/host.ts";
import { type DryRun, dryRun, type GpuOffer, gpuOffers, type NewDryRun } from "./availability.ts";
import { wantOf } from "./choose-hosts.ts";
import { type CreateDeps, type DeployRequest, isRepo, type Owner, wouldCreate } from "./create.ts";
import { baseModelUnknown, DeploymentNotFound } from "./errors.ts";
import type { ShapeOfRepo } from "./expected-memory.ts";
import { estimateMemory } from "./memory-estimate.ts";
import { type GpuMinimums, maxNewByType, maxNewGpus } from "./place-reserve.ts";
import { rememberShapes } from "./remembered-shapes.ts";
import { expectedMemoryBytes } from "./resources.ts";
import type { DeploymentStore } from "./store.ts";

export interface PlacementPreviewDeps extends Omit<CreateDeps, "store" | "shapeOf"> {
  readonly store: Pick<DeploymentStore, "get" | "instances" | "refusalOf">;
  readonly hosts: () => Promise<readonly HostView[]>;
  readonly shapeOf: ShapeOfRepo;
  readonly resolve: (name: string, account: AccountId) => Pick<ServedModel, "deployId" | "owner"> | undefined;
  /** Nano-USD per hour of one GPU, by type. */
  readonly hourRates: () => Promise<ReadonlyMap<string, bigint>>;
  readonly reserve: (gpu: GpuType) => Promise<{ readonly minimums: GpuMinimums }>;
}

export interface PlacementPreview {
  /** Every GPU count and type that at least one host has. Throws baseModelUnknown. */
  gpus(
    caller: Pick<Owner, "account">,
    need: { readonly source: string; readonly baseModel: string },
  ): Promise<readonly GpuOffer[]>;
  /** Placement of a new deployment. Throws as its creation would. */
  dryRunNew(caller: Owner, request: DeployRequest): Promise<NewDryRun>;
  /** Placement of one more instance. Throws DeploymentNotFound. */
  dryRun(caller: Pick<Owner, "account">, id: DeploymentId): Promise<DryRun>;
}

export function createPlacementPreview(deps: PlacementPreviewDeps): PlacementPreview {
  const { store, hosts, hourRates, reserve, demoModel } = deps;
  const shapeOf = rememberShapes(deps.shapeOf);

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
    const shape = isRepo(repo) ? await shapeOf(repo, "main", undefined) : undefined;
    return shape ? estimateMemory(shape, { maxBatchSize: 1, contextLength: 0, gpus: 1 }) : 0;
  }

  return {
    async gpus({ account }, { source, baseModel }) {
      const [need, views, rates] = await Promise.all([needOf(source, baseModel), hosts(), hourRates()]);
      const maxNew = await maxNewByType(views, account, reserve);
      return gpuOffers(views, need, rates, (gpu) => maxNew.get(gpu));
    },
    async dryRunNew(caller, request) {
      const next = await wouldCreate({ ...deps, shapeOf }, caller, request);
      const { engine, memoryBytes, gpu, numGpus, minInstances, account } = next;
      const [views, rates, { minimums }] = await Promise.all([hosts(), hourRates(), reserve(gpu)]);
      const want = { ...wantOf(next), maxNewGpus: maxNewGpus(minimums, views, account, gpu) };
      const hourRate = (rates.get(gpu) ?? 0n) * BigInt(numGpus * minInstances);
      return { ...dryRun(want, views), engine, memoryBytes, hourRate };
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
