// Connections to one instance through the agent of its host: an upgrade on the data path, with a ticket for one purpose.
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Socket } from "node:net";
import type { AccountId, InstanceId } from "../../proto/ids.ts";
import { signTicket } from "../../proto/ticket.ts";
import type { Dial } from "./dial.ts";
import { type DataPath, operatorTicket } from "./prover.ts";

export interface InstanceWay extends DataPath {
  readonly instance: InstanceId;
}

export interface TunnelKind {
  readonly path: string;
  readonly protocol: string;
  readonly purpose: string;
  /** Account that opens it, for the agent's limits; undefined: the agent does not count by account. */
  readonly account?: AccountId;
  /** Maximum time until the agent accepts it. */
  readonly openMs: number;
}

/** The agent answered the upgrade with another status. */
export class TunnelRefused extends Error {
  readonly status: number;

  constructor(status: number) {
    super(`the host's agent answered ${status}`);
    this.status = status;
  }
}

/** Rejects with TunnelRefused, or with the cause when the host cannot be reached. */
export function openTunnel(
  { hostId, origin, instance, ticketKey }: InstanceWay,
  { path, protocol, purpose, account, openMs }: TunnelKind,
  dial: Dial,
): Promise<Socket> {
  const url = new URL(path, origin);
  const ask = url.protocol === "https:" ? httpsRequest : httpRequest;
  const ticket = signTicket(operatorTicket(purpose, instance, account), ticketKey);
  return new Promise((resolve, reject) => {
    const asking = ask(url, {
      ...dial({ hostId, origin }),
      agent: false,
      headers: { connection: "upgrade", upgrade: protocol, "x-stoker-ticket": ticket },
      signal: AbortSignal.timeout(openMs),
    });
    asking.once("upgrade", (_answer, socket, first) => {
      if (first.length > 0) socket.unshift(first);
      resolve(socket as Socket);
    });
    asking.once("response", (answer) => {
      answer.resume();
      reject(new TunnelRefused(answer.statusCode ?? 0));
    });
    asking.once("error", reject);
    asking.end();
  });
}
