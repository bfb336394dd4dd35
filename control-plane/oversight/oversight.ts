// Deployments, containers and agent instances of all accounts, as operators see and end them, and events of the fleet.
import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import type { Act } from "../act.ts";
import type { AgentInstances } from "../agent-instances/agent-instances.ts";
import type { Containers } from "../containers/containers.ts";
import type { Deployments } from "../deployments/deployments.ts";
import { DeploymentNotFound, wrongDeploymentState } from "../deployments/errors.ts";
import { checkCursor, pageOf } from "../page.ts";
import type { EventFilter, FleetEvent, Overseen, OverseenFilter, OversightStore } from "./store.ts";

export interface OversightDeps {
  readonly store: OversightStore;
  readonly deployments: Pick<Deployments, "stop" | "start" | "restart" | "remove" | "logs">;
  /** Audits that the operator reads an account's records. */
  readonly noteView: (account: AccountId, act: Act) => Promise<void>;
  readonly containers: Pick<Containers, "remove">;
  readonly agentInstances: Pick<AgentInstances, "stop" | "start" | "restart" | "remove">;
}

export type Oversight = ReturnType<typeof createOversight>;

/** Methods throw the errors of the deployment's kind. `act`: the operator, for the audit log. */
export function createOversight(deps: OversightDeps) {
  const { store, deployments, containers, agentInstances } = deps;

  async function found(id: DeploymentId): Promise<Overseen> {
    const one = await store.get(id);
    if (!one) throw new DeploymentNotFound();
    return one;
  }

  return {
    get: found,

    /** Newest first. Throws badCursor. */
    async list(filter: OverseenFilter, cursor: string | undefined, limit: number) {
      checkCursor(cursor, /^[\w-]{1,64}$/);
      const found = await store.list(filter, cursor as DeploymentId | undefined, limit + 1);
      return pageOf(found, limit, ({ deployment }) => deployment.id);
    },

    /** Events of all accounts and hosts, newest first. Throws badCursor. */
    events: (filter: EventFilter, cursor: string | undefined, limit: number) =>
      eventPage(store.namedEvents, filter, cursor, limit),

    /** Events of one deployment of the account, newest first. Throws badCursor. */
    async eventsOf(account: AccountId, id: DeploymentId, cursor: string | undefined, limit: number) {
      if ((await found(id)).owner.account !== account) throw new DeploymentNotFound();
      return eventPage(store.events, { account, deployment: id }, cursor, limit);
    },

    /** Audited like every view of the account's records. */
    async logs(id: DeploymentId, act: Act, ...query: LogArguments) {
      const { owner } = await found(id);
      await deps.noteView(owner.account, act);
      return deployments.logs(owner, id, ...query);
    },

    async stop(id: DeploymentId, act: Act): Promise<void> {
      const { owner, deployment } = await found(id);
      if (deployment.kind === "container")
        throw wrongDeploymentState(
          "A container has no stopped state, because its data ends with it. Delete it instead.",
        );
      const rental = deployment.kind === "agent_instance" ? agentInstances : deployments;
      await rental.stop(owner, id, act);
    },

    /** Starts a stopped or failed deployment; of a running one, restarts every instance in place, at once. */
    async restart(id: DeploymentId, act: Act): Promise<void> {
      const { owner, deployment } = await found(id);
      if (deployment.kind === "container")
        throw wrongDeploymentState("A container cannot be restarted, because its data ends with it.");
      const isAtRest = deployment.status === "stopped" || deployment.status === "failed";
      const rental = deployment.kind === "agent_instance" ? agentInstances : deployments;
      await (isAtRest ? rental.start(owner, id, act) : rental.restart(owner, id, act));
    },

    /** Ends it for good; the data of a container or agent instance is deleted with it. */
    async remove(id: DeploymentId, act: Act): Promise<void> {
      const { owner, deployment } = await found(id);
      const kinds = { model: deployments, container: containers, agent_instance: agentInstances };
      await kinds[deployment.kind].remove(owner, id, act);
    },
  };
}

type LogArguments = Parameters<Deployments["logs"]> extends [unknown, unknown, ...infer Rest] ? Rest : never;

async function eventPage<Event extends FleetEvent>(
  read: (filter: EventFilter, before: bigint | undefined, limit: number) => Promise<readonly Event[]>,
  filter: EventFilter,
  cursor: string | undefined,
  limit: number,
) {
  checkCursor(cursor, /^\d{1,18}$/);
  const found = await read(filter, cursor === undefined ? undefined : BigInt(cursor), limit + 1);
  const { page, nextCursor } = pageOf(found, limit, ({ id }) => String(id));
  return { events: page, nextCursor };
}
