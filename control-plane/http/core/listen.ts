import type { FastifyInstance } from "fastify";

/** For this name Fastify opens a second server, which would have none of the edge's listeners. */
const namesOfLoopback: Readonly<Record<string, string>> = { localhost: "127.0.0.1" };

/** Returns the port it listens on. `isShared`: other processes of this control plane listen on it too; the kernel spreads connections. */
export async function listenOn(
  edge: FastifyInstance,
  address: { readonly host: string; readonly port: number },
  isShared = false,
): Promise<number> {
  // Fastify passes all options on to Node, also those that its type does not name.
  const options = { host: namesOfLoopback[address.host] ?? address.host, port: address.port, reusePort: isShared };
  await edge.listen(options);
  const bound = edge.server.address();
  return typeof bound === "object" && bound ? bound.port : address.port;
}

/** Accepts nothing new, lets requests finish for `drainMs`, then closes their connections. */
export async function drain(edge: FastifyInstance, drainMs: number): Promise<void> {
  const cut = setTimeout(() => edge.server.closeAllConnections(), drainMs);
  await edge.close();
  clearTimeout(cut);
}
