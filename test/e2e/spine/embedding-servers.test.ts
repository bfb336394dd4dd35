// Servers of embeddings and scores by text-embeddings-inference's API, by a stand-in: registered, probed, called and billed.
import OpenAI from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { type Stack, startStack } from "../../fakes/processes.ts";
import { startTeiServer, type TeiServer } from "../../fakes/tei-server.ts";

const [vectors, ranks] = ["tei/vectors", "tei/ranks"];
const pricing = { input: 2, cached_input: 2, output: 0 };
let embedder: TeiServer;
let ranker: TeiServer;
let stack: Stack;
let [vectorsId, ranksId] = ["", ""];

async function serve(name: string, server: object): Promise<string> {
  const made = await stack.call("POST", "/v1/admin/external", { name, format: "tei", ...server });
  expect(made.status, JSON.stringify(made.body)).toBe(200);
  const id: string = made.body.deploy_id;
  await vi.waitFor(async () => expect((await stack.call("GET", `/deploy/${id}`)).body.status).toBe("deployed"), {
    timeout: 60_000,
    interval: 100,
  });
  const offered = await stack.call("PUT", `/v1/admin/models/${name}`, { deploy_id: id, description: "", pricing });
  expect(offered.status, JSON.stringify(offered.body)).toBe(200);
  return id;
}

/** Without the agent's reads of its figures. */
const work = (server: TeiServer) => server.asked.filter(({ path }) => path !== "/metrics");

beforeAll(async () => {
  [stack, embedder, ranker] = await Promise.all([
    startStack(),
    startTeiServer("embedding"),
    startTeiServer("reranker"),
  ]);
  vectorsId = await serve(vectors, { url: embedder.origin, task: "embeddings", api_key: "tei-key" });
  ranksId = await serve(ranks, { url: ranker.origin, task: "reranker", max_batch_size: 7 });
});
afterAll(async () => {
  await stack?.stop();
  await Promise.all([embedder?.close(), ranker?.close()]);
});
beforeEach(() => {
  for (const one of [embedder, ranker]) {
    one.asked.length = 0;
    one.failure = undefined;
  }
});

describe("a server of text-embeddings-inference", () => {
  it("embeds, and bills the tokens that it counted", async () => {
    const openai = new OpenAI({ apiKey: stack.apiKey, baseURL: `${stack.url}/v1`, maxRetries: 0 });
    const answer = await openai.embeddings.create({
      model: vectors,
      input: ["one two", "three"],
      encoding_format: "float",
    });
    expect(answer.data.map(({ embedding }) => embedding)).toEqual([
      [7, 0.5],
      [5, 0.5],
    ]);
    expect(answer.usage).toMatchObject({ prompt_tokens: 7, total_tokens: 7, estimated_cost: 14e-6 });
    expect(work(embedder)).toMatchObject([{ path: "/v1/embeddings", key: "Bearer tei-key" }]);
  });

  it("ranks and scores the texts of one query", async () => {
    const ask = (path: string, body: object) => stack.call("POST", path, { model: ranks, ...body });
    const ranked = await ask("/v1/rerank", { query: "b", documents: ["a", "b", "ab"], top_n: 2 });
    expect(ranked.body.results).toEqual([
      { index: 1, relevance_score: 0.9 },
      { index: 2, relevance_score: 0.9 },
    ]);
    const scored = await ask("/v1/score", { text_1: "b", text_2: ["a", "b"] });
    expect(scored.body.data.map(({ score }: { score: number }) => score)).toEqual([0.1, 0.9]);
    expect(work(ranker).map(({ path, body }) => [path, body["texts"]])).toEqual([
      ["/rerank", ["a", "b", "ab"]],
      ["/rerank", ["a", "b"]],
    ]);
    const pairs = await ask("/v1/score", { text_1: ["a", "b"], text_2: ["a", "b"] });
    expect(pairs.status).toBe(422);
    expect(pairs.body.error.code).toBe("queries_not_supported");
  });

  it("refuses with its own words what is the caller's fault, and is overloaded for a moment only", async () => {
    const ask = () => stack.call("POST", "/v1/embeddings", { model: vectors, input: "text" });
    embedder.failure = {
      status: 413,
      error: "Input validation error: `inputs` must have less than 512 tokens",
      error_type: "Validation",
    };
    const long = await ask();
    expect(long.status).toBe(413);
    expect(long.body.error.message).toContain("less than 512 tokens");
    embedder.failure = { status: 429, error: "Model is overloaded", error_type: "Overloaded" };
    expect((await ask()).status).toBe(429);
    embedder.failure = { status: 424, error: "Inference failed", error_type: "Backend" };
    const broken = await ask();
    expect(broken.status).toBe(502);
    expect(JSON.stringify(broken.body)).not.toContain("Inference failed");
  });

  it("gets as many requests at once as it reports, unless its operator set a number", async () => {
    const batchOf = async (id: string) => (await stack.call("GET", `/deploy/${id}`)).body.config.max_batch_size;
    expect([await batchOf(vectorsId), await batchOf(ranksId)]).toEqual([512, 7]);
    embedder.maxRequests = 300;
    await vi.waitFor(async () => expect(await batchOf(vectorsId)).toBe(300), { timeout: 40_000, interval: 500 });
  });

  it("must be registered with its task", async () => {
    const refused = await stack.call("POST", "/v1/admin/external", {
      name: "tei/chat",
      format: "tei",
      url: embedder.origin,
    });
    expect(refused.status).toBe(422);
    expect(JSON.stringify(refused.body)).toContain("requires task: embeddings or reranker");
  });
});
