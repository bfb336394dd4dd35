import { ServiceError } from "../service-error.ts";

export class NodeNotFound extends ServiceError {
  readonly code = "node_not_found";
  constructor(id: string) {
    super(`There is no host ${id}. \`GET /v1/admin/nodes\` lists the hosts.`, { param: "id" });
  }
}

/** Under the code of a host that is none: the name alone finds no host. */
export class NodeNameShared extends ServiceError {
  readonly code = "node_not_found";
  constructor(name: string, ids: readonly string[]) {
    super(`${ids.length} hosts are called ${name}: name the one you mean by its id, one of ${ids.join(", ")}.`, {
      param: "id",
    });
  }
}

export class NodeNotBehind extends ServiceError {
  readonly code = "node_not_behind";
  constructor(id: string) {
    super(`There is nothing to adopt: host ${id} obeys this control plane already.`);
  }
}

export class NodeRevoked extends ServiceError {
  readonly code = "node_revoked";
  constructor(id: string) {
    super(`The certificate of host ${id} was revoked already, or it never had one.`);
  }
}

export class NodeInUse extends ServiceError {
  readonly code = "node_in_use";
  constructor(host: string) {
    super(
      `Instances are left on ${host}, or their end was never confirmed. Drain it first; if it will never come back, revoke it and delete their deployments.`,
    );
  }
}

export class NodeDraining extends ServiceError {
  readonly code = "node_draining";
  constructor(host: string) {
    super(
      `${host} is being drained, so it gets nothing new already; a cordon would end the drain and keep what is there. If that is what you want, put it back into use (\`stoker node uncordon ${host}\`) and cordon it then.`,
    );
  }
}

export class NodeConnected extends ServiceError {
  readonly code = "node_connected";
  constructor(host: string) {
    super(`${host} is connected and would come back at once. Stop its agent or revoke it first.`);
  }
}

/** Said to an agent over its session, never to a client: the message goes into the host's log. */
export abstract class AgentRefusal extends Error {
  abstract readonly code: string;
}

/** An agent that does not come in, until somebody does what the sentence says. */
export class NodeRefused extends AgentRefusal {
  readonly code = "node_refused";
}

/** The host's certificate was revoked: its agent stops serving. */
export class NodeBanned extends AgentRefusal {
  readonly code = "node_banned";
  constructor(host: string) {
    super(
      `the certificate of host ${host} was revoked: join it again with a token made by ` +
        `\`stoker node token create --node ${host}\``,
    );
  }
}

/** Another agent with the same identity came later and is alive: this one stops serving. */
export class RunSuperseded extends AgentRefusal {
  readonly code = "run_superseded";
  constructor(host: string) {
    super(
      `another agent runs with the identity of host ${host} and came later, so this one is fenced: if this is the copy, end ` +
        "it and remove its folder; if the other one is, end that",
    );
  }
}

export class NothingCordoned extends ServiceError {
  readonly code = "nothing_cordoned";
  constructor(host: string, gpu: string | undefined) {
    super(
      gpu === undefined
        ? `Neither ${host} nor a GPU of it is cordoned: there is nothing to lift.`
        : `GPU ${gpu} of ${host} is not cordoned: there is nothing to lift.`,
    );
  }
}
