// A TCP link in front of a server of this machine that can be cut, or swallow everything, and be whole again.
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface TcpLink {
  readonly port: number;
  /** `refused`: connections end and new ones are refused service; `silent`: they stay open and nothing passes. */
  cut(how: "refused" | "silent"): void;
  /** For new connections; those that were cut stay so. */
  heal(): void;
  close(): Promise<void>;
}

export async function startTcpLink(targetPort: number): Promise<TcpLink> {
  let state: "whole" | "refused" | "silent" = "whole";
  const open = new Set<Socket>();
  const server = createServer((client) => {
    client.on("error", () => {});
    if (state === "refused") return void client.destroy();
    open.add(client);
    client.on("close", () => open.delete(client));
    if (state === "silent") return void client.resume();
    const upstream = connect(targetPort, "127.0.0.1");
    upstream.on("error", () => {});
    client.on("close", () => upstream.destroy());
    upstream.on("close", () => client.destroy());
    client.on("data", (bytes) => state !== "silent" && upstream.write(bytes));
    upstream.on("data", (bytes) => state !== "silent" && client.write(bytes));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const destroyAll = () => {
    for (const socket of open) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    cut(how) {
      state = how;
      if (how === "refused") destroyAll();
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
