// Agent instances: long-lived containers from the operator's catalogue, each with its own volume. Each verb is one guarded
// write; the loops that place and run deployments do the rest.
import { type AccountId, type DeploymentId, randomId } from "../../proto/ids.ts";
import type { Act } from "../act.ts";
import type { FundsDeps } from "../deployments/dedicated-money.ts";
import type { DeploymentStatus } from "../deployments/deployment.ts";
import { accountEnded, refuseSuspended } from "../deployments/errors.ts";
import { refuse, type Want } from "../deployments/place-fit.ts";
import { place } from "../deployments/placement-preview.ts";
import { type NewDeployment, singleInstance } from "../deployments/store.ts";
import type { HostView } from "../fleet/host.ts";
import { type AgentCatalog, priceSubject } from "./catalog.ts";
import type { Dashboards } from "./dashboards.ts";
import {
  AgentWrongState,
  agentBusy,
  agentInstanceNotFound,
  agentNameTaken,
  agentTypeUnknown,
  noAgentCapacity,
  noAgentFunds,
  noDashboard,
  tooManyAgents,
} from "./errors.ts";
import type { AgentInstance, AgentInstanceStore, AgentPlan, AgentType, Launcher } from "./store.ts";

export interface AgentParams {
  readonly name: string;
  readonly type: string;
  readonly plan: string;
}

/** The caller. */
export interface AgentOwner {
  readonly account: AccountId;
  readonly suspendReason: string | null;
}

export interface AgentInstancesDeps extends FundsDeps {
  readonly store: AgentInstanceStore;
  readonly catalog: AgentCatalog;
  /** Undefined: no address for dashboards is configured. */
  readonly dashboards: Pick<Dashboards, "launch"> | undefined;
  readonly snapshot: () => Promise<readonly HostView[]>;
  /** Maximum live instances of one account. */
  readonly limit: number;
}

const maxTries = 5;
const running: readonly DeploymentStatus[] = ["initializing", "downloading", "deploying", "deployed", "updating"];
const open: readonly DeploymentStatus[] = ["deployed", "updating"];

export function createAgentInstances(deps: AgentInstancesDeps) {
  const { store, catalog, dashboards } = deps;

  const found = (owner: AgentOwner, id: DeploymentId) => existing(store, owner, id);

  async function requireFunds(account: AccountId, subject: string, model: string): Promise<void> {
    const funds = await deps.funds(account);
    if (funds === null) return;
    const needed = await deps.firstMinutes(subject, 1, 1, { account, model });
    if (funds <= 0n || funds < needed) throw noAgentFunds(needed);
  }

  const to = (status: "initializing" | "stopping" | "deleted", account: AccountId, act: Act) => (now: AgentInstance) =>
    store.setStatus(now.deployment.id, account, now.deployment.revision, status, act);

  return {
    catalog: (): readonly AgentType[] => [...catalog.types.values()],

    /** Throws the errors of errors.ts, as all methods do. */
    async create(owner: AgentOwner, request: AgentParams, act: Act): Promise<DeploymentId> {
      refuseSuspended(owner);
      const { type, plan } = chosen(catalog, request);
      const subject = priceSubject(type.id, plan.id);
      await requireFunds(owner.account, subject, request.name);
      const deployment = { ...deploymentOf(owner.account, request.name, type, plan), act };
      const want = { gpu: "other", gpusPerInstance: 0, engine: "agent_instance", host: undefined } as const;
      const whole = { ...want, memoryBytes: plan.ramBytes, image: type.image };
      const hosts = await deps.snapshot();
      const fits = place(whole, hosts);
      if (!fits.ok) throw noAgentCapacity(fits.rejections, hosts.length === 0 || hosts.some(isSetUp(whole)));
      const made = await store.insert({ deployment, type, plan }, deps.limit);
      if (made === "name_taken") throw agentNameTaken(request.name);
      if (made === "too_many") throw tooManyAgents(deps.limit);
      if (made === "account_gone") throw accountEnded();
      return deployment.id;
    },

    get: found,
    list: ({ account }: AgentOwner): Promise<readonly AgentInstance[]> => store.list(account),

    async rename(owner: AgentOwner, id: DeploymentId, name: string): Promise<AgentInstance> {
      for (let attempt = 1; attempt <= maxTries; attempt++) {
        const now = await found(owner, id);
        if (now.deployment.status === "deleted") throw agentInstanceNotFound();
        const outcome = await store.rename(id, owner.account, now.deployment.revision, name);
        if (outcome === "name_taken") throw agentNameTaken(name);
        if (outcome === "renamed") return found(owner, id);
      }
      throw agentBusy();
    },

    stop: (owner: AgentOwner, id: DeploymentId, act: Act): Promise<void> =>
      change(store, owner, id, running, "stopped", to("stopping", owner.account, act)),

    async start(owner: AgentOwner, id: DeploymentId, act: Act): Promise<void> {
      refuseSuspended(owner);
      const { type, plan, deployment } = await found(owner, id);
      if (deployment.status === "stopped" || deployment.status === "failed")
        await requireFunds(owner.account, priceSubject(type, plan), deployment.modelName);
      await change(store, owner, id, ["stopped", "failed"], "started", to("initializing", owner.account, act));
    },

    restart: (owner: AgentOwner, id: DeploymentId, act: Act): Promise<void> =>
      change(store, owner, id, ["deployed"], "restarted", ({ deployment }) =>
        store.restart(id, owner.account, deployment.revision, act),
      ),

    /** Updates to the catalogue's version; a running instance is restarted. */
    async update(owner: AgentOwner, id: DeploymentId): Promise<void> {
      const { type: typeId } = await found(owner, id);
      const type = catalog.types.get(typeId);
      if (!type)
        throw new AgentWrongState(
          `The agent type ${typeId} is no longer offered. The instance keeps running unchanged.`,
        );
      await change(store, owner, id, ["deployed", "stopped", "failed"], "updated", (now) =>
        store.update(id, owner.account, now.deployment.revision, type),
      );
    },

    /** Address of its dashboard, valid for one visit within a minute. `port`: where the control plane received the request. */
    async launchToken(
      owner: AgentOwner,
      id: DeploymentId,
      by: Launcher & { readonly port: number | undefined },
    ): Promise<string> {
      refuseSuspended(owner);
      const one = await found(owner, id);
      if (one.deployment.status === "deleted") throw agentInstanceNotFound();
      requireDashboard(one, catalog);
      if (!dashboards) throw noDashboard(`Dashboards are not available on this installation.`);
      const url = open.includes(one.deployment.status)
        ? await dashboards.launch({ id, account: owner.account }, by)
        : undefined;
      if (url !== undefined) return url;
      const why = one.deployment.failReason ? ` (${one.deployment.failReason})` : "";
      throw new AgentWrongState(
        `The agent instance must be running to open its dashboard; it is ${stateOf(one)}${why}.`,
      );
    },

    remove: (owner: AgentOwner, id: DeploymentId, act: Act): Promise<void> =>
      change(
        store,
        owner,
        id,
        [...running, "stopping", "stopped", "failed"],
        "deleted",
        to("deleted", owner.account, act),
      ).catch((error) => {
        // Already deleted: reply as for an unknown instance.
        if (error instanceof AgentWrongState) throw agentInstanceNotFound();
        throw error;
      }),
  };
}

export type AgentInstances = ReturnType<typeof createAgentInstances>;

async function existing(store: AgentInstanceStore, { account }: AgentOwner, id: DeploymentId): Promise<AgentInstance> {
  const one = await store.get(id, account);
  if (!one) throw agentInstanceNotFound();
  return one;
}

/** Reads, decides and writes if the row is unchanged; retries a few times if it changed. */
async function change(
  store: AgentInstanceStore,
  owner: AgentOwner,
  id: DeploymentId,
  from: readonly DeploymentStatus[],
  verb: string,
  write: (now: AgentInstance) => Promise<boolean>,
): Promise<void> {
  for (let attempt = 1; attempt <= maxTries; attempt++) {
    const now = await existing(store, owner, id);
    const { status } = now.deployment;
    if (!from.includes(status))
      throw new AgentWrongState(`An agent instance that is ${stateOf(now)} cannot be ${verb}.`);
    if (now.operation) throw agentBusy();
    if (await write(now)) return;
  }
  throw agentBusy();
}

/** Throws noDashboard when the version that runs has none. */
function requireDashboard(one: AgentInstance, catalog: AgentCatalog): void {
  const type = catalog.types.get(one.type);
  const name = type?.prettyName ?? one.type;
  if (one.dashboardPort === null)
    throw noDashboard(
      type && type.dashboardPort !== null
        ? `${name} has a dashboard since version ${type.version}, and this instance runs version ${one.version}. Update it, then open its dashboard.`
        : `${name} has no dashboard. \`GET /v1/agent/catalog\` shows which agent types have one.`,
    );
}

/** Throws agentTypeUnknown. */
function chosen(catalog: AgentCatalog, request: AgentParams): { type: AgentType; plan: AgentPlan } {
  const type = catalog.types.get(request.type);
  if (!type)
    throw agentTypeUnknown(
      `There is no agent type ${request.type.slice(0, 40)}. \`GET /v1/agent/catalog\` lists them.`,
      { param: "agent_type_id" },
    );
  const plan = type.plans.find((one) => one.id === request.plan);
  if (!plan)
    throw agentTypeUnknown(
      `${type.id} has no plan ${request.plan.slice(0, 40)}; it has ${type.plans.map((one) => one.id).join(", ")}.`,
      {
        param: "plan_id",
      },
    );
  return { type, plan };
}

export type AgentState = "creating" | "starting" | "running" | "stopping" | "stopped" | "failed" | "deleted";

/** Derives the interface's state from the deployment that carries the instance. */
export function stateOf({ deployment, wasStopped }: Pick<AgentInstance, "deployment" | "wasStopped">): AgentState {
  const { status } = deployment;
  switch (status) {
    case "initializing":
    case "downloading":
      return wasStopped ? "starting" : "creating";
    case "deploying":
      return "starting";
    case "deployed":
    case "updating":
      return "running";
    default:
      return status;
  }
}

function deploymentOf(account: AccountId, name: string, type: AgentType, plan: AgentPlan): NewDeployment {
  return {
    ...singleInstance,
    id: `agent-${randomId<"deployment">(12)}` as DeploymentId,
    account,
    kind: "agent_instance",
    modelName: name,
    version: type.version,
    task: "agent",
    engine: "agent_instance",
    gpu: "other",
    memoryBytes: plan.ramBytes,
    priceSubject: priceSubject(type.id, plan.id),
  };
}

/**
 * True when a host could take the instance once it is up. Existing claims end some day; the configuration does not change.
 */
const isSetUp =
  (want: Want) =>
  (host: HostView): boolean =>
    refuse(want, { ...host, state: "live", schedulable: true }) === undefined;
