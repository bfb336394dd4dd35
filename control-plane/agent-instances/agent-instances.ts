// Agent instances: long-lived containers of the operator's catalogue with a volume of their own. Each verb is one guarded
// write; the loops that place and run deployments do the rest.
import { type AccountId, type DeploymentId, randomId } from "../../proto/ids.ts";
import type { FundsDeps } from "../deployments/dedicated-money.ts";
import type { DeploymentStatus } from "../deployments/deployment.ts";
import { AccountEnded, AccountSuspended } from "../deployments/errors.ts";
import { place } from "../deployments/place.ts";
import { refuse } from "../deployments/place-filter.ts";
import type { NewDeployment } from "../deployments/store.ts";
import type { Want } from "../deployments/want.ts";
import type { HostView } from "../fleet/host.ts";
import { type AgentCatalog, priceSubject } from "./catalog.ts";
import type { Dashboards } from "./dashboards.ts";
import {
  AgentBusy,
  AgentInstanceNotFound,
  AgentNameTaken,
  AgentTypeUnknown,
  AgentWrongState,
  NoAgentCapacity,
  NoAgentFunds,
  NoDashboard,
  TooManyAgents,
} from "./errors.ts";
import type { AgentInstance, AgentInstanceStore, AgentPlan, AgentType, Launcher } from "./store.ts";

export interface AgentWish {
  readonly name: string;
  readonly type: string;
  readonly plan: string;
}

/** Who asks. */
export interface AgentOwner {
  readonly account: AccountId;
  readonly suspendReason: string | null;
}

export interface AgentInstances {
  catalog(): readonly AgentType[];
  /** Throws the errors of errors.ts, as all of these do. `ip`: the client's, for the audit log. */
  create(owner: AgentOwner, wish: AgentWish, ip: string): Promise<DeploymentId>;
  get(owner: AgentOwner, id: DeploymentId): Promise<AgentInstance>;
  list(owner: AgentOwner): Promise<readonly AgentInstance[]>;
  rename(owner: AgentOwner, id: DeploymentId, name: string): Promise<AgentInstance>;
  stop(owner: AgentOwner, id: DeploymentId): Promise<void>;
  start(owner: AgentOwner, id: DeploymentId): Promise<void>;
  /** To the version of the catalogue; a running one is restarted. */
  update(owner: AgentOwner, id: DeploymentId): Promise<void>;
  remove(owner: AgentOwner, id: DeploymentId, ip: string): Promise<void>;
  /**
   * Address of its dashboard, good for one visit and for a minute. `port`: at which the control plane took the request.
   */
  launchToken(
    owner: AgentOwner,
    id: DeploymentId,
    by: Launcher & { readonly port: number | undefined },
  ): Promise<string>;
}

export interface AgentInstancesDeps extends FundsDeps {
  readonly store: AgentInstanceStore;
  readonly catalog: AgentCatalog;
  /** Undefined: this Stoker has no address for dashboards. */
  readonly dashboards: Pick<Dashboards, "launch"> | undefined;
  readonly snapshot: () => Promise<readonly HostView[]>;
  /** Live ones of one account. */
  readonly limit: number;
}

const maxTries = 5;
const running: readonly DeploymentStatus[] = ["initializing", "downloading", "deploying", "deployed", "updating"];
const open: readonly DeploymentStatus[] = ["deployed", "updating"];

export function createAgentInstances(deps: AgentInstancesDeps): AgentInstances {
  const { store, catalog, dashboards } = deps;

  async function found({ account }: AgentOwner, id: DeploymentId): Promise<AgentInstance> {
    const one = await store.get(id, account);
    if (!one) throw new AgentInstanceNotFound();
    return one;
  }

  function chosen(wish: AgentWish): { type: AgentType; plan: AgentPlan } {
    const type = catalog.types.get(wish.type);
    if (!type)
      throw new AgentTypeUnknown(
        `There is no agent type ${wish.type.slice(0, 40)}. \`GET /v1/agent/catalog\` lists them.`,
        { param: "agent_type_id" },
      );
    const plan = type.plans.find((one) => one.id === wish.plan);
    if (!plan)
      throw new AgentTypeUnknown(
        `${type.id} has no plan ${wish.plan.slice(0, 40)}; it has ${type.plans.map((one) => one.id).join(", ")}.`,
        {
          param: "plan_id",
        },
      );
    return { type, plan };
  }

  async function requireFunds(account: AccountId, subject: string, model: string): Promise<void> {
    const funds = await deps.funds(account);
    if (funds === null) return;
    const needed = await deps.firstMinutes(subject, 1, 1, { account, model });
    if (funds <= 0n || funds < needed) throw new NoAgentFunds(needed);
  }

  /** Looks, decides, writes if nothing moved meanwhile, and looks again a few times if something did. */
  async function change(
    owner: AgentOwner,
    id: DeploymentId,
    from: readonly DeploymentStatus[],
    verb: string,
    write: (now: AgentInstance) => Promise<boolean>,
  ): Promise<void> {
    for (let attempt = 1; attempt <= maxTries; attempt++) {
      const now = await found(owner, id);
      const { status } = now.deployment;
      if (!from.includes(status))
        throw new AgentWrongState(`An agent instance that is ${stateOf(now)} cannot be ${verb}.`);
      if (now.operation) throw new AgentBusy();
      if (await write(now)) return;
    }
    throw new AgentBusy();
  }
  const to =
    (status: "initializing" | "stopping" | "deleted", account: AccountId, ip?: string) => (now: AgentInstance) =>
      store.setStatus(now.deployment.id, account, now.deployment.revision, status, ip);

  return {
    catalog: () => [...catalog.types.values()],

    async create(owner, wish, ip) {
      if (owner.suspendReason !== null) throw new AccountSuspended(owner.suspendReason);
      const { type, plan } = chosen(wish);
      const subject = priceSubject(type.id, plan.id);
      await requireFunds(owner.account, subject, wish.name);
      const deployment = { ...deploymentOf(owner.account, wish.name, type, plan), ip };
      const want = { gpu: "other", gpusPerInstance: 0, engine: "agent_instance", host: undefined } as const;
      const whole = { ...want, memoryBytes: plan.ramBytes, image: type.image };
      const hosts = await deps.snapshot();
      const fits = place(whole, hosts);
      if (!fits.ok) throw new NoAgentCapacity(fits.rejections, hosts.length === 0 || hosts.some(isSetUp(whole)));
      const made = await store.insert({ deployment, type, plan }, deps.limit);
      if (made === "name_taken") throw new AgentNameTaken(wish.name);
      if (made === "too_many") throw new TooManyAgents(deps.limit);
      if (made === "account_gone") throw new AccountEnded();
      return deployment.id;
    },

    get: found,
    list: ({ account }) => store.list(account),

    async rename(owner, id, name) {
      for (let attempt = 1; attempt <= maxTries; attempt++) {
        const now = await found(owner, id);
        if (now.deployment.status === "deleted") throw new AgentInstanceNotFound();
        const outcome = await store.rename(id, owner.account, now.deployment.revision, name);
        if (outcome === "name_taken") throw new AgentNameTaken(name);
        if (outcome === "renamed") return found(owner, id);
      }
      throw new AgentBusy();
    },

    stop: (owner, id) => change(owner, id, running, "stopped", to("stopping", owner.account)),

    async start(owner, id) {
      if (owner.suspendReason !== null) throw new AccountSuspended(owner.suspendReason);
      const { type, plan, deployment } = await found(owner, id);
      if (deployment.status === "stopped" || deployment.status === "failed")
        await requireFunds(owner.account, priceSubject(type, plan), deployment.modelName);
      await change(owner, id, ["stopped", "failed"], "started", to("initializing", owner.account));
    },

    async update(owner, id) {
      const { type: typeId } = await found(owner, id);
      const type = catalog.types.get(typeId);
      if (!type) throw new AgentWrongState(`The operator no longer offers ${typeId}: it runs on as it is.`);
      await change(owner, id, ["deployed", "stopped", "failed"], "updated", (now) =>
        store.update(id, owner.account, now.deployment.revision, type),
      );
    },

    async launchToken(owner, id, by) {
      if (owner.suspendReason !== null) throw new AccountSuspended(owner.suspendReason);
      const one = await found(owner, id);
      if (one.deployment.status === "deleted") throw new AgentInstanceNotFound();
      const type = catalog.types.get(one.type);
      const name = type?.prettyName ?? one.type;
      if (one.dashboardPort === null)
        throw new NoDashboard(
          type && type.dashboardPort !== null
            ? `${name} has a dashboard since version ${type.version}, and this instance runs version ${one.version}. Update it, then open its dashboard.`
            : `${name} has no dashboard, so there is none to open. \`GET /v1/agent/catalog\` shows which agent types have one.`,
        );
      if (!dashboards)
        throw new NoDashboard(
          `The dashboard of ${name} cannot be opened: this Stoker has no address for dashboards. Ask your operator to set STOKER_DASHBOARD_URL.`,
        );
      const url = open.includes(one.deployment.status)
        ? await dashboards.launch({ id, account: owner.account }, by)
        : undefined;
      if (url !== undefined) return url;
      const why = one.deployment.failReason ? ` (${one.deployment.failReason})` : "";
      throw new AgentWrongState(
        `The dashboard of an agent instance can be opened while it runs; this one is ${stateOf(one)}${why}.`,
      );
    },

    remove: (owner, id, ip) =>
      change(
        owner,
        id,
        [...running, "stopping", "stopped", "failed"],
        "deleted",
        to("deleted", owner.account, ip),
      ).catch((error) => {
        // Gone already: as one that never was.
        if (error instanceof AgentWrongState) throw new AgentInstanceNotFound();
        throw error;
      }),
  };
}

export type AgentState = "creating" | "starting" | "running" | "stopping" | "stopped" | "failed" | "deleted";

/** The states of the interface, from those of the deployment that carries it. */
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
    id: `agent-${randomId<"deployment">(12)}` as DeploymentId,
    account,
    kind: "agent_instance",
    modelName: name,
    version: type.version,
    task: "agent",
    type: "legacy",
    engine: "agent_instance",
    gpu: "other",
    numGpus: 0,
    maxBatchSize: 1,
    minInstances: 1,
    maxInstances: 1,
    weights: { repo: "", revision: "" },
    weightsToken: null,
    extraArgs: [],
    externalUrl: null,
    contextLength: 0,
    memoryBytes: plan.ramBytes,
    priceSubject: priceSubject(type.id, plan.id),
  };
}

/** Whether a host could take it when it is up. What is granted on it besides ends some day; how it is set up does not. */
const isSetUp =
  (want: Want) =>
  (host: HostView): boolean =>
    refuse(want, { ...host, state: "live", schedulable: true }) === undefined;
