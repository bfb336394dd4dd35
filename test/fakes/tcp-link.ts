// A TCP link in front of a server of this machine that can be cut, or swallow everything, and be whole again.
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { createServer as createTlsServer, type TlsOptions } from "node:tls";

export interface TcpLink {
  readonly port: number;
  /** Connections that are open now. */
  readonly open: number;
  /** `refused`: connections end and new ones are refused service; `silent`: they stay open and nothing passes. */
  cut(how: "refused" | "silent"): void;
  /** Connections that are open stay open and nothing passes; new ones are whole. */
  lose(): void;
  /** For new connections; those that were cut stay so. */
  heal(): void;
  close(): Promise<void>;
}

/** `tls`: the link ends TLS; the server behind it is reached without. */
export async function startTcpLink(targetPort: number, tls?: TlsOptions): Promise<TcpLink> {
  let state: "whole" | "refused" | "silent" = "whole";
  const open = new Set<Socket>();
  const lost = new WeakSet<Socket>();
  const accept = (client: Socket) => {
    client.on("error", () => {});
    if (state === "refused") return void client.destroy();
    open.add(client);
    client.on("close", () => open.delete(client));
    if (state === "silent") return void client.resume();
    const upstream = connect(targetPort, "127.0.0.1");
    upstream.on("error", () => {});
    const passes = () => state !== "silent" && !lost.has(client);
    client.on("close", () => upstream.destroy());
    upstream.on("close", () => !lost.has(client) && client.destroy());
    client.on("data", (bytes) => passes() && upstream.write(bytes));
    upstream.on("data", (bytes) => passes() && client.write(bytes));
  };
  const server = tls ? createTlsServer(tls, accept) : createServer(accept);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const destroyAll = () => {
    for (const socket of open) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    get open() {
      return open.size;
    },
    cut(how) {
      state = how;
      if (how === "refused") destroyAll();
    },
    lose() {
      for (const socket of open) lost.add(socket);
    },
    heal() {
      state = "whole";
      destroyAll();
    },
    async close() {
      destroyAll();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
