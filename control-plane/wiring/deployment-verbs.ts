// What the HTTP edge may ask of deployments and hosts, with its ports filled in.
import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import type { Caller } from "../accounts/caller.ts";
import type { Directory } from "../catalog/directory.ts";
import type { LookAtRepo } from "../catalog/hub-look.ts";
import { offerModel } from "../catalog/offer-model.ts";
import type { CatalogStore } from "../catalog/store.ts";
import {
  deleteDeployment,
  getDeployment,
  startDeployment,
  stopDeployment,
  updateDeployment,
} from "../deployments/change.ts";
import { createDeployment, type KnownModel } from "../deployments/create.ts";
import { createBy } from "../deployments/create-by.ts";
import { createExternal } from "../deployments/create-external.ts";
import { createHf } from "../deployments/create-hf.ts";
import type { FundsDeps } from "../deployments/dedicated-money.ts";
import type { Deployment } from "../deployments/deployment.ts";
import { AccountSuspended, DeploymentGone, DeploymentNotFound } from "../deployments/errors.ts";
import { changedMemory, type Run, type ShapeOfRepo } from "../deployments/expected-memory.ts";
import { type AskForLogs, mergeLogs, readLogs } from "../deployments/logs.ts";
import type { DeploymentStatsStore, DeploymentStore } from "../deployments/store.ts";
import { NodeNotFound, NothingCordoned } from "../fleet/errors.ts";
import { hostNamed } from "../fleet/find-host.ts";
import { instanceLogs } from "../fleet/instance-logs.ts";
import type { AdminVerbs, DeploymentVerbs, NodeView } from "../http/verbs.ts";
import type { GpuDefaults } from "../quotas/gpu-limits.ts";
import { answering } from "./answering.ts";
import type { Fleet } from "./fleet.ts";
import type { HubTokens } from "./seals.ts";

export interface VerbDeps {
  readonly fleet: Fleet;
  readonly directory: Directory;
  readonly catalog: CatalogStore;
  readonly tokens: HubTokens;
  /** Nano-USD left; null: no limit. */
  readonly funds: FundsDeps["funds"];
  readonly firstMinutes: FundsDeps["firstMinutes"];
  readonly gpuDefaults: GpuDefaults;
  readonly stats: DeploymentStatsStore;
  readonly lookAtRepo: LookAtRepo;
  readonly demoModel: (repo: string) => KnownModel | undefined;
  readonly shapeOf: ShapeOfRepo;
}

/** A public model's weights and needs, by the deployment that serves it. */
export function publicModelOf({
  fleet,
  directory,
}: {
  readonly fleet: { readonly deploymentStore: Pick<DeploymentStore, "get"> };
  readonly directory: Pick<Directory, "resolve">;
}) {
  return async (name: string): Promise<KnownModel | undefined> => {
    const offered = directory.resolve(name, "" as AccountId);
    const found = offered && (await fleet.deploymentStore.get(offered.deployId, offered.owner));
    if (!found) return undefined;
    const { weights, task, memoryBytes: otherwiseBytes, contextLength } = found;
    // Its claim is that of its own GPUs and of as many requests as it lets in at once.
    return { weights, task, memoryBytes: () => 0, otherwiseBytes, contextLength };
  };
}

export function createDeploymentVerbs({ fleet, directory, tokens, stats, ...paying }: VerbDeps): DeploymentVerbs {
  const store = fleet.deploymentStore;
  const ask: AskForLogs = (host, instance, query, signal) =>
    instanceLogs({ store: fleet.fleetStore, dial: fleet.dial }, host, instance, query, signal);

  const undeleted = async (account: AccountId, id: DeploymentId): Promise<Deployment> => {
    const deployment = await getDeployment(store, account, id);
    if (deployment.status === "deleted") throw new DeploymentGone();
    return deployment;
  };

  const createDeps = {
    measuredMemory: fleet.measuredMemory.find,
    ...paying,
    store,
    sealToken: tokens.seal,
    publicModel: publicModelOf({ fleet, directory }),
    hosts: fleet.snapshot,
  };

  /** By the files' own word, with the token they were given; one that does not open is as good as none. */
  const memory = (now: Deployment, next: Run) =>
    changedMemory(createDeps, now, next, paying.demoModel(now.weights.repo)?.memoryBytes(next) ?? 0, async () => {
      const sealed = now.hasWeightsToken ? await store.weightsToken(now.id, now.account) : null;
      return sealed ? tokens.open(now.account, sealed).catch(() => undefined) : undefined;
    });

  return {
    createLlm: (caller, request) => answering(() => createDeployment(createDeps, caller, request)),
    createHf: (caller, request) => answering(() => createHf(createDeps, caller, request)),
    createBy: (caller, provider, request) => answering(() => createBy(createDeps, caller, provider, request)),
    requestCounts: ({ account }, fromMs, toMs) => answering(() => stats.requests(account, fromMs, toMs)),
    use: ({ account }, id, fromMs, toMs) =>
      answering(async () => {
        const deployment = await undeleted(account, id);
        return { deployment, use: await stats.use(id, account, fromMs, toMs) };
      }),
    series: ({ account }, id, fromMs, toMs, steps) =>
      answering(async () => {
        await undeleted(account, id);
        return stats.series(id, account, fromMs, toMs, steps);
      }),
    instanceLogs: ({ account }, id, query, signal) =>
      answering(async () => {
        const deployment = await store.get(id, account);
        if (!deployment) throw new DeploymentNotFound();
        return readLogs({ store, ask }, deployment, query, signal);
      }),
    get: ({ account }, id) => answering(() => getDeployment(store, account, id)),
    list: ({ account }, statuses) => answering(() => store.list(account, "model", statuses)),
    update: (caller, id, update) =>
      answering(async () => {
        refuseSuspended(caller);
        await updateDeployment(store, caller.account, id, update, paying.gpuDefaults, { ...paying, memory });
      }),
    remove: ({ account }, id) => answering(() => deleteDeployment(store, account, id)),
    stop: ({ account }, id) => answering(() => stopDeployment(store, account, id)),
    start: (caller, id) =>
      answering(async () => {
        refuseSuspended(caller);
        await startDeployment(store, caller.account, id, paying);
      }),
    logs: ({ account }, id, query, signal) =>
      answering(async () => {
        // Whatever of theirs it is: containers have logs too.
        const deployment = await store.get(id, account);
        if (!deployment) throw new DeploymentNotFound();
        return mergeLogs(await readLogs({ store, ask }, deployment, query, signal), query);
      }),
  };
}

export function createAdminVerbs({ fleet, catalog, directory }: VerbDeps): AdminVerbs {
  const store = fleet.deploymentStore;
  const hasHost = async (idOrName: string) =>
    (await fleet.fleetStore.hosts()).some((host) => host.id === idOrName || host.hostname === idOrName);

  async function nodes(): Promise<readonly NodeView[]> {
    const live = await fleet.live();
    const instances = Map.groupBy(await store.instances(undefined), (instance) => instance.hostId);
    return (await fleet.snapshot()).map((host) => ({
      ...host,
      figures: live.get(host.id),
      instances: (instances.get(host.id) ?? []).map(({ id, deployId }) => ({
        id,
        deployId,
        inFlight: fleet.routing.inFlight(id),
      })),
    }));
  }

  async function node(idOrName: string): Promise<NodeView> {
    const all = await nodes();
    const named = hostNamed(all, idOrName);
    const found = all.find(({ id }) => id === named);
    if (!found) throw new NodeNotFound(idOrName);
    return found;
  }

  return {
    offerModel: (offer) =>
      answering(async () => {
        const offered = await offerModel(catalog, offer);
        // The next request to this replica is priced by the offer, not by what was known a moment ago.
        await directory.refresh();
        return offered;
      }),
    createExternal: (caller, request) => answering(() => createExternal({ store, hasHost }, caller, request)),
    nodes: () => answering(nodes),
    node: (idOrName) => answering(() => node(idOrName)),
    uncordon: (idOrName, gpu, act) =>
      answering(async () => {
        const { id, hostname } = await node(idOrName);
        const isHostBack = gpu === undefined && (await fleet.hostOperations.end(id, act));
        const areGpusBack = await fleet.fleetStore.uncordon({ host: id, gpu, act });
        if (!isHostBack && !areGpusBack) throw new NothingCordoned(hostname, gpu);
        return node(id);
      }),
  };
}

/** What costs more is refused; reading, stopping and deleting are not. */
function refuseSuspended(caller: Caller): void {
  if (caller.suspendReason !== null) throw new AccountSuspended(caller.suspendReason);
}
