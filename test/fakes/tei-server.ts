// Stand-in for text-embeddings-inference, written from its published API: /info, /health, /v1/embeddings, /rerank and its errors. No
// real one was met.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface TeiServer {
  readonly origin: string;
  readonly asked: { readonly path: string; readonly body: Record<string, unknown>; readonly key: string | undefined }[];
  /** Its limit, as it reports. */
  maxRequests: number;
  /** Reply to the next requests of work; undefined: they succeed. */
  failure: { readonly status: number; readonly error: string; readonly error_type: string } | undefined;
  close(): Promise<void>;
}

/** Embeds a text as the number of its characters, and scores a text by whether it contains the query. */
export async function startTeiServer(kind: "embedding" | "reranker"): Promise<TeiServer> {
  const info = {
    model_id: "/data",
    model_dtype: "float32",
    model_type:
      kind === "embedding" ? { embedding: { pooling: "cls" } } : { reranker: { id2label: { "0": "LABEL_0" } } },
    max_input_length: 512,
    max_batch_tokens: 16_384,
    max_client_batch_size: 32,
    auto_truncate: false,
    version: "1.8.3",
  };
  const asked: TeiServer["asked"] = [];
  const server = createServer(async (request, response) => {
    const send = (status: number, value: unknown) =>
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
    const path = request.url ?? "";
    if (path === "/info") return send(200, { ...info, max_concurrent_requests: tei.maxRequests });
    if (path === "/health") return response.writeHead(200).end();
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = JSON.parse(Buffer.concat(chunks).toString() || "{}") as Record<string, unknown>;
    asked.push({ path, body, key: request.headers.authorization });
    if (tei.failure) return send(tei.failure.status, { error: tei.failure.error, error_type: tei.failure.error_type });
    if (path === "/v1/embeddings" && kind === "embedding") {
      const inputs = [body["input"]].flat() as readonly string[];
      const data = inputs.map((text, index) => ({ object: "embedding", index, embedding: [text.length, 0.5] }));
      const tokens = inputs.reduce((sum, text) => sum + text.split(" ").length + 2, 0);
      return send(200, {
        object: "list",
        model: "/data",
        data,
        usage: { prompt_tokens: tokens, total_tokens: tokens },
      });
    }
    if (path === "/rerank" && kind === "reranker") {
      const texts = body["texts"] as readonly string[];
      const ranked = texts.map((text, index) => ({ index, score: text.includes(String(body["query"])) ? 0.9 : 0.1 }));
      return send(
        200,
        ranked.toSorted((a, b) => b.score - a.score),
      );
    }
    return response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const tei: TeiServer = {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    maxRequests: 512,
    failure: undefined,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return tei;
}
