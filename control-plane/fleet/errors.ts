import { conflict, notFound } from "../service-error.ts";

export const nodeNotFound = (id: string) =>
  notFound("node_not_found", `Host ${id} not found. \`GET /v1/admin/nodes\` lists the hosts.`, { param: "id" });

/** Uses the code of an unknown host, because the name alone identifies none. */
export const nodeNameShared = (name: string, ids: readonly string[]) =>
  notFound("node_not_found", `${ids.length} hosts are named ${name}. Use one of their ids: ${ids.join(", ")}.`, {
    param: "id",
  });

export const nodeNotBehind = (id: string) =>
  conflict("node_not_behind", `Host ${id} already follows this control plane; there is nothing to adopt.`);

export const nodeRevoked = (id: string) =>
  conflict("node_revoked", `The certificate of host ${id} is already revoked, or it never had one.`);

export const nodeInUse = (host: string) =>
  conflict(
    "node_in_use",
    `Instances on ${host} are running or not confirmed as stopped. Drain it first; if it never returns, revoke it and delete their deployments.`,
  );

export const nodeDraining = (host: string) =>
  conflict(
    "node_draining",
    `${host} is draining; a cordon would cancel the drain and keep its instances. To do that, run \`stoker node uncordon ${host}\` first.`,
  );

export const nodeConnected = (host: string) =>
  conflict("node_connected", `${host} is connected and would join again at once. Stop its agent or revoke it first.`);

/** Sent to an agent over its session, never to a client: the message is for the host's log. */
export abstract class AgentRefusal extends Error {
  abstract readonly code: string;
}

/** The agent is refused until the action in the message is taken. */
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

/** Another live agent registered later with the same identity, so this one stops serving. */
export class RunSuperseded extends AgentRefusal {
  readonly code = "run_superseded";
  constructor(host: string) {
    super(
      `another agent registered later with the identity of host ${host}, so this one is fenced: stop the copy, whichever it is, ` +
        "and remove its folder",
    );
  }
}

/** The host sent invalid data, so its session ended. It may start another one after a pause. */
export class SessionPaused extends AgentRefusal {
  readonly code = "session_paused";
  constructor(why: string) {
    super(`the control plane refuses sessions of this host for 10 seconds, because it sent invalid data: ${why}`);
  }
}

export const nothingCordoned = (host: string, gpu: string | undefined) =>
  conflict(
    "nothing_cordoned",
    gpu === undefined ? `Neither ${host} nor any of its GPUs is cordoned.` : `GPU ${gpu} of ${host} is not cordoned.`,
  );
