// A TCP link in front of a server of this machine that can be cut, swallow everything, delay it, and be whole again.
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
  /** How bytes pass from now on, also over open connections. */
  shape(how: LinkShape): void;
  /** RST to both ends of every open connection; new ones are whole. */
  reset(): void;
  /** For new connections; those that were cut stay so. */
  heal(): void;
  close(): Promise<void>;
}

export interface LinkShape {
  readonly delayMs?: number;
  /** These bytes get lost; the other direction passes. */
  readonly drops?: "requests" | "replies";
  /** The first bytes of what arrives together leave one by one. */
  readonly isTrickling?: boolean;
}

/** Of what arrives together. All of a large body would take minutes. */
const trickled = 64;

/** `target`: a port of this machine or the path of a socket. `tls`: the link ends TLS; the server behind it is reached without. */
export async function startTcpLink(target: number | string, tls?: TlsOptions): Promise<TcpLink> {
  let state: "whole" | "refused" | "silent" = "whole";
  let shape: LinkShape = {};
  const open = new Set<Socket>();
  const lost = new WeakSet<Socket>();
  const accept = (client: Socket) => {
    client.on("error", () => {});
    if (state === "refused") return void client.destroy();
    open.add(client);
    client.on("close", () => open.delete(client));
    if (state === "silent") return void client.resume();
    const upstream = typeof target === "string" ? connect(target) : connect(target, "127.0.0.1");
    upstream.on("error", () => {});
    const passes = () => state !== "silent" && !lost.has(client);
    client.on("close", () => upstream.destroy());
    upstream.on("close", () => !lost.has(client) && client.destroy());
    const pass = (from: Socket, to: Socket, what: LinkShape["drops"]) => {
      const send = sender(to, () => shape);
      from.on("data", (bytes) => passes() && shape.drops !== what && send(bytes));
    };
    pass(client, upstream, "requests");
    pass(upstream, client, "replies");
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
    shape(how) {
      shape = how;
    },
    reset() {
      for (const socket of open) socket.resetAndDestroy();
    },
    heal() {
      state = "whole";
      shape = {};
      destroyAll();
    },
    async close() {
      destroyAll();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Writes in the order of the calls, as the shape of that moment says. */
function sender(to: Socket, shape: () => LinkShape): (bytes: Buffer) => void {
  const waiting: { readonly bytes: Buffer; readonly dueMs: number }[] = [];
  let isPumping = false;
  const pump = () => {
    const next = waiting.shift();
    isPumping = next !== undefined;
    if (!next) return;
    const write = () => {
      to.write(next.bytes);
      // In a turn of its own: Node would send what is written together in one packet.
      setImmediate(pump);
    };
    const leftMs = next.dueMs - performance.now();
    if (leftMs > 0) setTimeout(write, leftMs);
    else write();
  };
  return (bytes) => {
    const { delayMs = 0, isTrickling } = shape();
    if (delayMs === 0 && !isTrickling && !isPumping) return void to.write(bytes);
    const dueMs = performance.now() + delayMs;
    const single = isTrickling ? Math.min(trickled, bytes.length) : 0;
    for (let at = 0; at < single; at++) waiting.push({ bytes: bytes.subarray(at, at + 1), dueMs });
    if (single < bytes.length) waiting.push({ bytes: bytes.subarray(single), dueMs });
    if (!isPumping) pump();
  };
}
