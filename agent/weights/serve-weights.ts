// Serves weights to neighbours on the data path: a set by its key, and a verified blob by its digest. Callers have a ticket
// (checked by the ingress); a key that includes a token cannot be guessed.
import { createReadStream } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import type { BlobStore } from "./blobs.ts";
import type { KeptSets } from "./kept.ts";

export type ServeWeights = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

const form = /^\/weights\/(known|blobs)\/([0-9a-f]{64})$/;
/** Limits concurrent transfers, so that inference keeps enough of the network. */
const maxAtOnce = 4;
const retrySeconds = 2;
/** Maximum time without progress: a stalled transfer blocks others. */
const stalledMs = 30_000;

export function createServeWeights(
  blobs: Pick<BlobStore, "has" | "pathOf">,
  kept: Pick<KeptSets, "recall">,
  limitMs = stalledMs,
): ServeWeights {
  let running = 0;

  return async (request, response) => {
    const [, what, name = ""] = form.exec(request.url ?? "") ?? [];
    const isHead = request.method === "HEAD";
    if (what === undefined || (request.method !== "GET" && !isHead)) return end(response, 404);
    if (what === "known") {
      const found = await kept.recall(name);
      if (!found || found.isUnconfirmed) return end(response, 404);
      response.writeHead(200, { "content-type": "application/json" }).end(isHead ? "" : JSON.stringify(found));
      return;
    }
    const gone = new AbortController();
    response.on("close", () => gone.abort());
    const size = await blobs.has(name, gone.signal);
    if (size === undefined) return end(response, 404);
    if (isHead) return end(response, 200, { "content-length": String(size) });
    if (running >= maxAtOnce) return end(response, 503, { "retry-after": String(retrySeconds) });
    const from = Number(/^bytes=(\d{1,15})-$/.exec(request.headers.range ?? "")?.[1] ?? 0);
    if (from > 0 && from >= size) return end(response, 416, { "content-range": `bytes */${size}` });
    const range = from > 0 ? { "content-range": `bytes ${from}-${size - 1}/${size}` } : {};
    response.writeHead(from > 0 ? 206 : 200, { "content-length": String(size - from), etag: `"${name}"`, ...range });
    response.setTimeout(limitMs, () => response.destroy());
    running += 1;
    try {
      await pipeline(createReadStream(blobs.pathOf(name), { start: from, highWaterMark: 256 * 1024 }), response);
    } catch {
      // The caller disconnected, or sees that the reply is incomplete.
      response.destroy();
    } finally {
      running -= 1;
    }
  };
}

function end(response: ServerResponse, status: number, headers: Record<string, string> = {}): void {
  response.writeHead(status, headers).end();
}
