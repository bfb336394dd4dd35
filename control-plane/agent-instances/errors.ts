import { nano, toUsd } from "../../proto/money.ts";
import {
  badRequest,
  conflict,
  type ErrorFacts,
  forbidden,
  notFound,
  paymentRequired,
  rateLimited,
  ServiceError,
  unauthenticated,
  unavailable,
} from "../service-error.ts";

export const agentInstanceNotFound = () =>
  notFound("agent_not_found", "Agent instance not found. `GET /v1/agent` lists yours.");

/** A type or plan that is not in the catalogue. */
export const agentTypeUnknown = (message: string, facts?: ErrorFacts) =>
  badRequest("agent_type_unknown", message, facts);

export const agentNameTaken = (name: string) =>
  conflict("name_taken", `An agent instance named ${name} already exists in your account. Choose another name.`, {
    param: "name",
  });

export class AgentWrongState extends ServiceError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super("conflict", "wrong_state", message, facts);
  }
}

/** The instance has no dashboard address. */
export const noDashboard = (message: string) => conflict("no_dashboard", message);

/** A browser without a visit to this dashboard, or with an expired one. */
export const dashboardClosed = (message: string) => unauthenticated("dashboard_closed", message);

/** The host name belongs to no agent instance. */
export const dashboardUnknown = () =>
  notFound("dashboard_unknown", "Dashboard not found. `stoker agent open` prints the address of yours.");

/** A request from a page of another site. */
export const dashboardForeign = () =>
  forbidden(
    "dashboard_foreign",
    "Requests from pages of other sites are not allowed. Open the dashboard in its own tab.",
  );

/** `status`: of the deployment that carries the instance. */
export const dashboardNotReady = (status: string) =>
  unavailable("dashboard_not_ready", `The agent instance is ${status}. Start it, or try again in a few seconds.`, {
    retryAfterSeconds: 5,
  });

export class DashboardBusy extends ServiceError {
  constructor() {
    super(
      "rate_limited",
      "dashboard_busy",
      "Too many open requests to this dashboard. Close its other tabs, or try again in a few seconds.",
      {
        retryAfterSeconds: 1,
      },
    );
  }
}

export const dashboardUnreachable = (cause: unknown) =>
  new ServiceError(
    "upstream_failed",
    "dashboard_unreachable",
    "The dashboard did not respond. Its instance may be starting: try again in a few seconds, or check its logs.",
    { cause },
  );

/** The connection to the host failed; its agent may be restarting. */
export class DashboardHostUnavailable extends ServiceError {
  constructor(cause: unknown) {
    super(
      "unavailable",
      "dashboard_host_away",
      "The host of this dashboard is unavailable; it may be restarting. Try again in a few seconds.",
      {
        cause,
        retryAfterSeconds: 5,
      },
    );
  }
}

/** A backup or restore runs on its volume. */
export const agentBusy = () =>
  conflict(
    "operation_running",
    "Another operation is running on this agent instance. Wait until it finishes; `GET .../backups` shows its progress.",
  );

export const tooManyAgents = (limit: number) =>
  rateLimited("agent_limit_reached", `Your account can have at most ${limit} agent instances. Delete one first.`);

export const tooManyBackups = (limit: number) =>
  conflict("backup_limit_reached", `An agent instance can have at most ${limit} manual backups. Delete one first.`);

/** `needed`: nano-USD reserved for its first minutes. */
export const noAgentFunds = (needed: bigint) =>
  paymentRequired(
    "insufficient_quota",
    `The first five minutes of this agent instance cost USD ${toUsd(nano(needed))}, which your funds do not cover. Add funds or ask your operator for credit.`,
  );

/** `mayComeFree`: a host that is up could take it once empty. */
export function noAgentCapacity(
  reasons: readonly { readonly host: string; readonly why: string }[],
  mayComeFree = true,
): ServiceError {
  const why = reasons.map((one) => `${one.host}: ${one.why}`).join("; ");
  return unavailable(
    "no_capacity",
    mayComeFree
      ? `No host has capacity for this agent instance (${why || "no host is connected"}). Try again later.`
      : `No host is set up for this agent instance (${why}). It needs a host with the Docker driver whose operator allows its ` +
          "image (docs/operations/agent-instances.md). Ask your operator.",
    { retryAfterSeconds: 60 },
  );
}

export const backupNotFound = () =>
  notFound("backup_not_found", "Backup not found or not ready. `GET .../backups` lists those that are ready.");
