import { nano, toUsd } from "../../proto/money.ts";
import { ServiceError } from "../service-error.ts";

export class AgentInstanceNotFound extends ServiceError {
  readonly code = "agent_not_found";
  constructor() {
    super("There is no such agent instance. `GET /v1/agent` shows yours.");
  }
}

/** A type or plan that the catalogue does not hold. */
export class AgentTypeUnknown extends ServiceError {
  readonly code = "agent_type_unknown";
}

export class AgentNameTaken extends ServiceError {
  readonly code = "name_taken";
  constructor(name: string) {
    super(`An agent instance named ${name} already exists in your account. Choose another name.`, { param: "name" });
  }
}

export class AgentWrongState extends ServiceError {
  readonly code = "wrong_state";
}

/** There is nothing that a browser could be sent to. */
export class NoDashboard extends ServiceError {
  readonly code = "no_dashboard";
}

/** A browser without a visit to this dashboard, or with one that has ended. */
export class DashboardClosed extends ServiceError {
  readonly code = "dashboard_closed";
}

/** The host's name belongs to no agent instance. */
export class DashboardUnknown extends ServiceError {
  readonly code = "dashboard_unknown";
  constructor() {
    super("There is no dashboard at this address. `stoker agent open` prints the address of yours.");
  }
}

/** A page of another site wants something of a dashboard. */
export class DashboardForeign extends ServiceError {
  readonly code = "dashboard_foreign";
  constructor() {
    super(
      "A page of another site sent this request, so it was not carried out. Open the dashboard in a tab of its own.",
    );
  }
}

export class DashboardNotReady extends ServiceError {
  readonly code = "dashboard_not_ready";
  /** `status`: of the deployment that carries the instance. */
  constructor(status: string) {
    super(`The agent instance does not serve now: it is ${status}. Start it, or try again in a moment.`, {
      retryAfterSeconds: 5,
    });
  }
}

export class DashboardBusy extends ServiceError {
  readonly code = "dashboard_busy";
  constructor() {
    super("Too many requests to this dashboard are open. Close other tabs of it, or try again in a moment.", {
      retryAfterSeconds: 1,
    });
  }
}

export class DashboardUnreachable extends ServiceError {
  readonly code = "dashboard_unreachable";
  constructor(cause: unknown) {
    super("The dashboard did not answer. Its instance may be starting: try again in a moment, or look at its logs.", {
      cause,
    });
  }
}

/** Between it and this control plane: its host's agent is starting anew, say. */
export class DashboardHostAway extends ServiceError {
  readonly code = "dashboard_host_away";
  constructor(cause: unknown) {
    super("The host of this dashboard does not answer now; it may be starting anew. Try again in a moment.", {
      cause,
      retryAfterSeconds: 5,
    });
  }
}

/** A backup or restore runs on its volume. */
export class AgentBusy extends ServiceError {
  readonly code = "operation_running";
  constructor() {
    super("Another operation on this agent instance runs. Wait for its end; `GET .../backups` shows how far it is.");
  }
}

export class TooManyAgents extends ServiceError {
  readonly code = "agent_limit_reached";
  constructor(limit: number) {
    super(`Your account may have ${limit} agent instances at a time. Delete one, then create this one.`);
  }
}

export class TooManyBackups extends ServiceError {
  readonly code = "backup_limit_reached";
  constructor(limit: bigint) {
    super(
      `This agent instance has ${limit} backups made by hand, the most that are kept. Delete one that you do not need.`,
    );
  }
}

export class NoAgentFunds extends ServiceError {
  readonly code = "insufficient_quota";
  /** `needed`: nano-USD that its first minutes hold. */
  constructor(needed: bigint) {
    super(
      `The first five minutes of this agent instance cost USD ${toUsd(nano(needed))}, which your funds do not cover. Add funds or ask your operator for credit.`,
    );
  }
}

export class NoAgentCapacity extends ServiceError {
  readonly code = "no_capacity";
  /** `mayComeFree`: a host that is up and empty would take it. */
  constructor(reasons: readonly { readonly host: string; readonly why: string }[], mayComeFree = true) {
    const why = reasons.map((one) => `${one.host}: ${one.why}`).join("; ");
    super(
      mayComeFree
        ? `No host can take this agent instance now (${why || "no host is connected"}). Try again later.`
        : `No host is set up for this agent instance (${why}). It needs a host with the Docker driver whose operator allows its ` +
            'image: "Agent instances and their backups" in docs/operations.md says how. Ask your operator.',
      { retryAfterSeconds: 60 },
    );
  }
}

export class BackupNotFound extends ServiceError {
  readonly code = "backup_not_found";
  constructor() {
    super("There is no such backup that can be restored. `GET .../backups` shows those that are ready.");
  }
}
