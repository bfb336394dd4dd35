// A stand-in for a model server of tasks other than text: each request gets the scripted answer, and what came is kept.
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as wait } from "node:timers/promises";

export interface TaskAnswer {
  /** Default 200. */
  readonly status?: number;
  readonly contentType: string;
  /** One write each. */
  readonly pieces: readonly (Buffer | string)[];
  /** Between the writes; default none. */
  readonly pieceMs?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly trailers?: Readonly<Record<string, string>>;
  /** Destroys the socket after the last piece. */
  readonly breaks?: boolean;
  /** What `GET /usage/{id}` says of a request that was cut; default 404. */
  readonly usage?: Readonly<Record<string, unknown>>;
}

export interface TaskRequest {
  readonly path: string;
  readonly contentType: string;
  readonly body: Buffer;
}

export interface TaskEngine {
  readonly origin: string;
  readonly requests: readonly TaskRequest[];
  /** Requests whose socket closed before their answer was whole. */
  readonly aborted: number;
  answer(next: TaskAnswer): void;
  close(): Promise<void>;
}

export async function startTaskEngine(): Promise<TaskEngine> {
  let script: TaskAnswer = { contentType: "application/json", pieces: ["{}"] };
  let aborted = 0;
  const requests: TaskRequest[] = [];

  async function serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const path = req.url ?? "/";
    if (req.method === "GET") {
      const usage = path.startsWith("/usage/") ? script.usage : undefined;
      res.writeHead(usage || path === "/health" ? 200 : 404, { "content-type": "application/json" });
      res.end(JSON.stringify(usage ?? {}));
      return;
    }
    const parts: Buffer[] = [];
    for await (const part of req) parts.push(part as Buffer);
    requests.push({ path, contentType: req.headers["content-type"] ?? "", body: Buffer.concat(parts) });
    const { contentType, pieces, pieceMs = 0, headers = {}, trailers, breaks } = script;
    res.on("close", () => {
      if (!res.writableFinished) aborted += 1;
    });
    const trailer = trailers ? { trailer: Object.keys(trailers).join(", ") } : {};
    res.writeHead(script.status ?? 200, { "content-type": contentType, ...headers, ...trailer });
    for (const [i, piece] of pieces.entries()) {
      if (i > 0) await wait(pieceMs);
      if (res.destroyed) return;
      res.write(piece);
    }
    if (breaks) {
      res.socket?.end(() => res.destroy());
      return;
    }
    if (trailers) res.addTrailers(trailers);
    res.end();
  }

  const server = createServer((req, res) => {
    serve(req, res).catch(() => res.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    get aborted() {
      return aborted;
    },
    answer: (next) => {
      script = next;
    },
    close: async () => {
      server.close();
      server.closeAllConnections();
      if (server.listening) await once(server, "close");
    },
  };
}
