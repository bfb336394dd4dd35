// A real ingress behind mutual TLS, with certificates that a test changes while it runs, and one that asks it as a gateway does.
import type { IngressTls } from "../../agent/ingress/door.ts";
import type { Dial } from "../../control-plane/fleet/dial.ts";
import type { UpstreamListener } from "../../control-plane/inference/upstream-call.ts";
import { createUpstreams, type Upstreams } from "../../control-plane/inference/upstreams.ts";
import type { HostId } from "../../proto/ids.ts";
import { dialOptions, type OwnCertificate, peerContext } from "../../proto/peer-tls.ts";
import { signTicket } from "../../proto/ticket.ts";
import { ticketFor, ticketKey } from "./data-path.ts";

export interface ChangingTls extends IngressTls {
  show(own: OwnCertificate | undefined): void;
  revoke(host: string): void;
}

export function changingTls(first: OwnCertificate | undefined): ChangingTls {
  let own = first;
  const revoked = new Set<string>();
  const ofCertificate: (() => void)[] = [];
  const ofRevoked: (() => void)[] = [];
  return {
    certificate: () => own,
    onCertificate: (listener) => void ofCertificate.push(listener),
    isRevoked: (host) => revoked.has(host),
    onRevoked: (listener) => void ofRevoked.push(listener),
    show(next) {
      own = next;
      for (const listener of ofCertificate) listener();
    },
    revoke(host) {
      revoked.add(host);
      for (const listener of ofRevoked) listener();
    },
  };
}

/** Shows this certificate to whichever host is dialled. */
export const dialWith =
  (own: OwnCertificate): Dial =>
  ({ hostId, origin }) =>
    origin.startsWith("https:") ? dialOptions(peerContext(own), hostId) : {};

/** A streamed completion, by the gateway's own client. Rejects with what kept it from an answer. */
export function ask(
  upstreams: Upstreams,
  to: { readonly origin: string; readonly hostId: HostId },
  onData: (text: string) => void = () => {},
): Promise<{ readonly status: number; readonly text: string }> {
  const ticket = ticketFor();
  const body = Buffer.from(
    JSON.stringify({ model: ticket.model, messages: [{ role: "user", content: "one" }], stream: true }),
  );
  const path = `/i/${ticket.instanceId}/v1/chat/completions`;
  return new Promise((resolve, reject) => {
    let status = 0;
    let text = "";
    const listener: UpstreamListener = {
      onRequestStart() {},
      onResponseStart: (_, code) => {
        status = code;
      },
      onResponseData: (_, piece) => {
        text += piece;
        onData(text);
      },
      onResponseEnd: () => resolve({ status, text }),
      onResponseError: (_, error) => reject(error),
    };
    upstreams.send(to, { path, ticket: signTicket(ticket, ticketKey), body }, listener);
  });
}

/** Asks once, by connections of its own. */
export async function askOnce(dial: Dial, to: { readonly origin: string; readonly hostId: HostId }) {
  const upstreams = createUpstreams(dial);
  try {
    return await ask(upstreams, to);
  } finally {
    await upstreams.close();
  }
}
