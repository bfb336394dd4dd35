// Limits of connections: their number, their silence, and the requests that wait on one.
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressLimits } from "./address-limits.ts";

/** For a TLS handshake; Node's limit on headers starts after it. */
const handshakeMs = 20_000;
/** For the headers of a request, including the first of a connection. */
const headersMs = 20_000;
/** Longer than the minute of common proxies: the side that sends requests must be the one that closes. */
const idleMs = 75_000;
/** For a whole request, including a file of 200 MB over a slow connection. Responses have no such limit. */
const requestMs = 900_000;
/** Interval of the check for exceeded limits. */
const checkEveryMs = 5_000;
/** Maximum requests on one connection that wait for earlier responses. Common clients send one at a time. */
export const maxPipelined = 8;

export const defaultServerTimes = {
  handshakeTimeout: handshakeMs,
  headersTimeout: headersMs,
  keepAliveTimeout: idleMs,
  requestTimeout: requestMs,
  connectionsCheckingInterval: checkEveryMs,
};

export type ServerTimes = typeof defaultServerTimes;

/** `refused` is called for each connection that is closed before its first byte. */
export function limitConnections(
  server: Server,
  { maxConnections, addresses }: { readonly maxConnections: number; readonly addresses: AddressLimits },
  refused: (why: "too_many_connections" | "too_many_connections_of_address") => void,
) {
  server.maxConnections = maxConnections;
  server.on("drop", () => refused("too_many_connections"));
  server.on("connection", (socket) => {
    if (addresses.connected(socket)) return;
    refused("too_many_connections_of_address");
    socket.destroy();
  });
  const waiting = new WeakMap<object, number>();
  return {
    /** False: too many requests wait on its connection. */
    mayWait({ socket }: IncomingMessage, res: ServerResponse): boolean {
      // Node gives a response its socket when the responses before it have ended.
      if (res.socket !== null) return true;
      const count = (waiting.get(socket) ?? 0) + 1;
      if (socket.destroyed || count > maxPipelined) return false;
      waiting.set(socket, count);
      res.once("close", () => waiting.set(socket, (waiting.get(socket) ?? 1) - 1));
      return true;
    },
  };
}

export type ConnectionLimits = ReturnType<typeof limitConnections>;

/** Node uses the first Host header, a proxy may use the last: they would route the same request differently. */
export function hasSeveralHosts({ rawHeaders }: IncomingMessage): boolean {
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    if (name.length === 4 && name.toLowerCase() === "host") count += 1;
  }
  return count > 1;
}
