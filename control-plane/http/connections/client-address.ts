// Address and scheme of the client behind trusted proxies, as Fastify determines them for its routes.
import type { IncomingMessage } from "node:http";
import { BlockList, isIP } from "node:net";
import { isTls } from "./secure-headers.ts";

export interface Client {
  /** Empty for a closed connection. */
  readonly address: string;
  /** The request came over TLS, to this port or to a trusted proxy. */
  readonly isSecure: boolean;
}

export type ClientOf = (request: Pick<IncomingMessage, "headers" | "socket">) => Client;

/**
 * `trusted`: addresses and networks of proxies, checked by the configuration. The client is the last forwarded address that is not
 * a trusted proxy, or the peer itself; an entry that is not an address ends the list.
 */
export function clientOf(trusted: readonly string[]): ClientOf {
  if (trusted.length === 0) return ({ socket }) => ({ address: socket.remoteAddress ?? "", isSecure: isTls(socket) });
  const proxies = new BlockList();
  for (const entry of trusted) {
    const [address = "", bits] = entry.split("/");
    if (bits === undefined) proxies.addAddress(address, familyOf(address));
    else proxies.addSubnet(address, Number(bits), familyOf(address));
  }
  const isTrusted = (address: string) => isIP(address) !== 0 && proxies.check(address, familyOf(address));
  return ({ headers, socket }) => {
    const peer = socket.remoteAddress ?? "";
    if (!isTrusted(peer)) return { address: peer, isSecure: isTls(socket) };
    let address = peer;
    for (const one of listOf(headers["x-forwarded-for"]).reverse()) {
      if (isIP(one) === 0 || !isTrusted(address)) break;
      address = one;
    }
    const protocol = listOf(headers["x-forwarded-proto"]).at(-1);
    return { address, isSecure: protocol ? protocol === "https" : isTls(socket) };
  };
}

const listOf = (header: string | string[] | undefined): string[] =>
  header === undefined
    ? []
    : String(header)
        .split(",")
        .map((one) => one.trim());

const familyOf = (address: string) => (isIP(address) === 6 ? "ipv6" : "ipv4");
