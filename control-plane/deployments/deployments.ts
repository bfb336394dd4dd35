// Deployments of models, as accounts and the operator use them.
import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import type { Act } from "../act.ts";
import {
  deleteDeployment,
  getDeployment,
  restartDeployment,
  type SettingsUpdate,
  startDeployment,
  stopDeployment,
  updateDeployment,
} from "./change.ts";
import { createDeployment, type DeployRequest, type Owner } from "./create.ts";
import {
  createBy,
  createExternal,
  createHf,
  type DeployProvider,
  type ExternalRequest,
  type HfDeps,
  type HfRequest,
  type ProvidedModel,
} from "./create-by.ts";
import type { Deployment, DeploymentStatus } from "./deployment.ts";
import { DeploymentNotFound, deploymentGone, refuseSuspended } from "./errors.ts";
import { changedMemory, type Run } from "./expected-memory.ts";
import { type FetchLogs, type LogQuery, mergeLogs, readLogs } from "./logs.ts";
import type { DeploymentStatsStore, DeploymentStore, PrefixCacheChange } from "./store.ts";
import { deploymentVersions, versionToReturnTo } from "./versions.ts";

export interface DeploymentsDeps extends HfDeps {
  readonly store: DeploymentStore;
  readonly stats: DeploymentStatsStore;
  readonly openToken: (account: AccountId, sealed: Buffer) => Promise<string>;
  readonly fetchLogs: FetchLogs;
}

type Account = Pick<Owner, "account">;

export type Deployments = ReturnType<typeof createDeployments>;

/** All methods throw the errors of errors.ts. */
export function createDeployments(deps: DeploymentsDeps) {
  const { store, stats } = deps;

  /** Reads file sizes with the deployment's token; a token that cannot be opened counts as none. */
  const memory = (now: Deployment, next: Run) =>
    changedMemory(deps, now, next, deps.demoModel(now.weights.repo)?.memoryBytes(next) ?? 0, async () => {
      const sealed = now.hasWeightsToken ? await store.weightsToken(now.id, now.account) : null;
      return sealed ? deps.openToken(now.account, sealed).catch(() => undefined) : undefined;
    });

  async function undeleted(account: AccountId, id: DeploymentId): Promise<Deployment> {
    const deployment = await getDeployment(store, account, id);
    if (deployment.status === "deleted") throw deploymentGone();
    return deployment;
  }

  /** Lines per instance, ascending. Containers have logs too. */
  async function instanceLogs({ account }: Account, id: DeploymentId, query: LogQuery, signal: AbortSignal) {
    const deployment = await store.get(id, account);
    if (!deployment) throw new DeploymentNotFound();
    return readLogs(deps, deployment, query, signal);
  }

  const hasHost = async (idOrName: string) =>
    (await deps.hosts()).some(({ id, hostname }) => id === idOrName || hostname === idOrName);

  return {
    createLlm: (owner: Owner, request: DeployRequest) => createDeployment(deps, owner, request),
    /** Deploys a hub model of any task. */
    createHf: (owner: Owner, request: HfRequest) => createHf(deps, owner, request),
    createBy: (owner: Owner, provider: DeployProvider, request: ProvidedModel) =>
      createBy(deps, owner, provider, request),
    createExternal: (owner: Owner, request: ExternalRequest) => createExternal({ ...deps, hasHost }, owner, request),
    get: ({ account }: Account, id: DeploymentId) => getDeployment(store, account, id),
    /** Without `statuses` all, including failed and deleted ones. */
    list: ({ account }: Account, statuses: readonly DeploymentStatus[] | undefined) =>
      store.list(account, "model", statuses),
    async update(owner: Owner, id: DeploymentId, update: SettingsUpdate): Promise<void> {
      refuseSuspended(owner);
      await updateDeployment(store, owner.account, id, update, deps.gpuDefaults, { ...deps, memory });
    },
    versions: ({ account }: Account, id: DeploymentId) => deploymentVersions(store, account, id),
    /** Returns to the arguments of an earlier version, as an update with them does. Returns its number. */
    async rollBack(owner: Owner, id: DeploymentId, version: number | undefined): Promise<number> {
      const to = await versionToReturnTo(store, owner.account, id, version);
      await this.update(owner, id, { extraArgs: to.extraArgs, standardArgs: to.standardArgs });
      return to.version;
    },
    remove: ({ account }: Account, id: DeploymentId, act: Act) => deleteDeployment(store, account, id, "model", act),
    stop: ({ account }: Account, id: DeploymentId, act: Act) => stopDeployment(store, account, id, act),
    async start(owner: Owner, id: DeploymentId, act: Act): Promise<void> {
      refuseSuspended(owner);
      await startDeployment(store, owner.account, id, deps, act);
    },
    restart: ({ account }: Account, id: DeploymentId, act: Act) => restartDeployment(store, account, id, act),
    requestCounts: ({ account }: Account, fromMs: number, toMs: number) => stats.requests(account, fromMs, toMs),
    /** Also throws deploymentGone. */
    async use({ account }: Account, id: DeploymentId, fromMs: number, toMs: number) {
      const deployment = await undeleted(account, id);
      return { deployment, use: await stats.use(id, account, fromMs, toMs) };
    },
    /** The same in `steps` equal intervals. Also throws deploymentGone. */
    async series({ account }: Account, id: DeploymentId, fromMs: number, toMs: number, steps: number) {
      await undeleted(account, id);
      return stats.series(id, account, fromMs, toMs, steps);
    },
    instanceLogs,
    /** Lines of all instances merged, ascending. */
    async logs(caller: Account, id: DeploymentId, query: LogQuery, signal: AbortSignal) {
      return mergeLogs(await instanceLogs(caller, id, query, signal), query);
    },
    /** Sets whether accounts reuse each other's evaluated prompts on a deployment. */
    async sharePrefixCache(change: PrefixCacheChange): Promise<void> {
      if (!(await store.sharePrefixCache(change))) throw new DeploymentNotFound();
    },
  };
}
