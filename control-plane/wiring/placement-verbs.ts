// What the HTTP edge may ask of placement, with its ports filled in.
import type { AccountId } from "../../proto/ids.ts";
import { dryRun, gpuOffers } from "../deployments/availability.ts";
import { wantOf } from "../deployments/choose-hosts.ts";
import { isRepo, wouldCreate } from "../deployments/create.ts";
import { BaseModelUnknown, DeploymentNotFound } from "../deployments/errors.ts";
import { estimateMemory } from "../deployments/memory-estimate.ts";
import { mostNewByType, mostNewGpus } from "../deployments/place-reserve.ts";
import { expectedMemoryBytes } from "../deployments/resources.ts";
import type { PlacementVerbs } from "../http/verbs.ts";
import { createContainerStore } from "../store/containers-store.ts";
import type { OpenDatabase } from "../store/database.ts";
import { createReserveStore } from "../store/gpu-reserve-store.ts";
import { answering } from "./answering.ts";
import { publicModelOf, type VerbDeps } from "./deployment-verbs.ts";
import { rememberShapes } from "./remembered-shapes.ts";

export function createPlacementVerbs({
  db,
  ...deps
}: Omit<VerbDeps, "catalog" | "stats"> & { readonly db: OpenDatabase["db"] }): PlacementVerbs {
  const { fleet, directory, demoModel } = deps;
  const store = fleet.deploymentStore;
  const { hourRates } = createContainerStore(db);
  const { reserve } = createReserveStore(db);
  const shapeOf = rememberShapes(deps.shapeOf);

  /** What an instance of it takes, as far as it is known; 0 unknown. */
  async function needOf(source: string, baseModel: string): Promise<number> {
    if (source !== "") return needOfWeights(source);
    if (baseModel === "") return 0;
    const offered = directory.resolve(baseModel, "" as AccountId);
    const base = offered && (await store.get(offered.deployId, offered.owner));
    if (base) return base.memoryBytes || expectedMemoryBytes(base.weights.sizeBytes ?? 0);
    if (!demoModel(baseModel)) throw new BaseModelUnknown(baseModel);
    return needOfWeights(baseModel);
  }
  /** Of one sequence at its full length: what a GPU must hold at the least. */
  async function needOfWeights(repo: string): Promise<number> {
    const demo = demoModel(repo);
    if (demo) return demo.memoryBytes({ maxBatchSize: 1, contextLength: demo.contextLength });
    const shape = isRepo(repo) ? await shapeOf(repo, "main", undefined) : undefined;
    return shape ? estimateMemory(shape, { maxBatchSize: 1, contextLength: 0, gpus: 1 }) : 0;
  }

  return {
    gpus: ({ account }, { source, baseModel }) =>
      answering(async () => {
        const [need, hosts, rates] = await Promise.all([needOf(source, baseModel), fleet.snapshot(), hourRates()]);
        const most = await mostNewByType(hosts, account, reserve);
        return gpuOffers(hosts, need, rates, (gpu) => most.get(gpu));
      }),
    dryRunNew: (caller, request) =>
      answering(async () => {
        const next = await wouldCreate(
          {
            ...{ ...deps, shapeOf, store },
            measuredMemory: fleet.measuredMemory.find,
            sealToken: deps.tokens.seal,
            publicModel: publicModelOf(deps),
          },
          caller,
          request,
        );
        const { engine, memoryBytes, gpu, numGpus, minInstances, account } = next;
        const [hosts, rates, { minimums }] = await Promise.all([fleet.snapshot(), hourRates(), reserve(gpu)]);
        const want = { ...wantOf(next), mostNewGpus: mostNewGpus(minimums, hosts, account, gpu) };
        const hourRate = (rates.get(gpu) ?? 0n) * BigInt(numGpus * minInstances);
        return { ...dryRun(want, hosts), engine, memoryBytes, hourRate };
      }),
    dryRun: ({ account }, id) =>
      answering(async () => {
        const deployment = await store.get(id, account);
        if (!deployment) throw new DeploymentNotFound();
        const spread = new Map<(typeof here)[number]["hostId"], number>();
        const here = await store.instances(id);
        for (const { hostId } of here) spread.set(hostId, (spread.get(hostId) ?? 0) + 1);
        const hosts = await fleet.snapshot();
        const { minimums } = await reserve(deployment.gpu);
        const most = mostNewGpus(minimums, hosts, account, deployment.gpu);
        return dryRun({ ...wantOf(deployment, spread), mostNewGpus: most }, hosts);
      }),
  };
}
