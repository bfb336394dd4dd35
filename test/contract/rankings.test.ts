// Rerankers, scorers and moderation from the edge to a model server and back.
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { apiKey } from "../fakes/ports.ts";
import { startTaskEdge, type TaskEdge } from "../fakes/task-edge.ts";

let tasks: TaskEdge;
beforeAll(async () => {
  tasks = await startTaskEdge();
});
afterAll(() => tasks?.close());

const usage = { prompt_tokens: 6, total_tokens: 6 };
const post = async (path: string, body: object) => {
  const response = await tasks.edge.post(path, body);
  return { status: response.status, body: await response.json() };
};

describe("a rerank request", () => {
  const documents = ["a", { text: "b" }, "c"];
  const ask = (change: object = {}, path = "/v1/rerank") =>
    post(path, { model: "org/model", query: "q", documents, ...change });
  const offer = (engine: "stoker" | "external" = "stoker") => {
    tasks.offer({ task: "reranker", engine });
    tasks.json({ results: [1, 2, 0].map((index) => ({ index, relevance_score: 0.9 - index / 4 })), usage });
  };

  it.each(["/v1/rerank", "/v2/rerank", "/v1/openai/rerank"])("sorts documents by relevance: %s", async (path) => {
    offer();
    const { status, body } = await ask({}, path);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      object: "list",
      model: "org/model",
      results: [
        { index: 0, relevance_score: 0.9 },
        { index: 1, relevance_score: 0.65 },
        { index: 2, relevance_score: 0.4 },
      ],
      usage: { prompt_tokens: 6, total_tokens: 6, estimated_cost: 0.00000012 },
      meta: { billed_units: { search_units: 1, input_tokens: 6 } },
    });
    expect(body.results[0]).not.toHaveProperty("document");
    expect(tasks.asked().path).toBe("/v1/rerank");
    expect(tasks.askedJson()).toEqual({ model: "as-served", query: "q", documents: ["a", "b", "c"] });
    // 6 tokens at 20 nano-USD.
    expect(tasks.settled()).toBe(120n);
  });

  it("returns the best documents with their texts when asked", async () => {
    offer("external");
    const { body } = await ask({ top_n: 2, return_documents: true });
    expect(body.results).toEqual([
      { index: 0, relevance_score: 0.9, document: { text: "a" } },
      { index: 1, relevance_score: 0.65, document: { text: "b" } },
    ]);
  });

  it.each([
    [{ documents: [] }, "documents"],
    [{ documents: [1] }, "documents"],
    [{ documents: Array.from({ length: 1025 }, () => "x") }, "documents"],
    [{ query: "" }, "query"],
    [{ top_n: 0 }, "top_n"],
  ])("returns 422 with the field (%#)", async (change, field) => {
    const { status, body } = await ask(change);
    expect([status, body.detail[0].loc[1]]).toEqual([422, field]);
  });

  const scored = (...indexes: unknown[]) => indexes.map((index) => ({ index, relevance_score: 0.5 }));

  it.each([
    ["has no scores", [{ index: 0 }, { index: 1 }, { index: 2 }]],
    ["has an index that would be an array of 4 billion", scored(0, 1, 4_294_967_294)],
    ["has one score too few", scored(0, 1)],
    ["has one score too many", scored(0, 1, 2, 2)],
    ["scores a document twice", scored(0, 1, 1)],
    ["has a negative index", scored(0, 1, -1)],
    ["has a fractional index", scored(0, 1, 1.5)],
    ["has an index that is text", scored(0, 1, "2")],
  ])("returns 502 when the engine's response %s", async (_, results) => {
    tasks.offer({ task: "reranker" });
    tasks.json({ results, usage });
    expect((await ask()).status).toBe(502);
  });
});

describe("a score request", () => {
  it("scores one text against each of a list, and pairs", async () => {
    tasks.offer({ task: "reranker" });
    tasks.json({ scores: [0.25, 0.75], usage });
    const one = await post("/v1/score", { model: "org/model", text_1: "q", text_2: ["a", "b"] });
    expect(one.body.data).toEqual([
      { index: 0, object: "score", score: 0.25 },
      { index: 1, object: "score", score: 0.75 },
    ]);
    expect(one.body.usage.prompt_tokens).toBe(6);
    const pairs = await post("/v1/score", { model: "org/model", text_1: ["p", "q"], text_2: ["a", "b"] });
    expect(pairs.status).toBe(200);
    expect(tasks.askedJson()).toEqual({ model: "as-served", queries: ["p", "q"], documents: ["a", "b"] });
    const wrong = await post("/v1/score", { model: "org/model", text_1: ["p", "q"], text_2: ["a"] });
    expect([wrong.status, wrong.body.error.code]).toEqual([422, "lengths_differ"]);
  });

  it("asks an external engine for scores of pairs", async () => {
    tasks.offer({ task: "reranker", engine: "external" });
    tasks.json({
      data: [
        { index: 0, score: 1.5 },
        { index: 1, score: -2 },
      ],
      usage,
    });
    const { body } = await post("/v1/score", { model: "org/model", text_1: ["p", "q"], text_2: ["a", "b"] });
    expect(body.data.map(({ score }: { score: number }) => score)).toEqual([1.5, -2]);
    expect([tasks.asked().path, tasks.askedJson()]).toEqual([
      "/v1/score",
      { model: "as-served", text_1: ["p", "q"], text_2: ["a", "b"] },
    ]);
  });
});

describe("a moderation request", () => {
  const client = () => new OpenAI({ apiKey, baseURL: `${tasks.edge.url}/v1/openai`, maxRetries: 0 });
  const toxic = [
    { label: "threat", score: 0.8 },
    { label: "toxic", score: 0.6 },
    { label: "obscene", score: 0.1 },
  ];

  it("returns OpenAI's categories of each input to the official client, by the served classifier", async () => {
    tasks.offer({ task: "text-classification" });
    tasks.json({
      results: [
        [
          { label: "OK", score: 0.99 },
          { label: "V", score: 0.01 },
        ],
        toxic,
      ],
      usage,
    });
    const answer = await client().moderations.create({
      model: "omni-moderation-latest",
      input: ["hello", "I will hurt you"],
    });
    expect(answer.results.map(({ flagged }) => flagged)).toEqual([false, true]);
    expect(answer.results[0]?.category_scores).toMatchObject({ violence: 0.01, hate: 0, "self-harm/intent": 0 });
    expect(answer.results[1]?.categories).toMatchObject({
      harassment: true,
      "harassment/threatening": true,
      sexual: false,
    });
    expect(answer.model).toBe("org/model");
    expect([tasks.asked().path, tasks.askedJson()]).toEqual([
      "/v1/infer",
      { model: "as-served", task: "text-classification", inputs: ["hello", "I will hurt you"] },
    ]);
    expect(tasks.settled()).toBe(120n);
  });

  it("judges text parts as one input, and passes the results of an external engine on", async () => {
    tasks.offer({ task: "text-classification", engine: "external" });
    const result = { flagged: false, categories: {}, category_scores: {} };
    tasks.json({ id: "x", model: "y", results: [result], usage });
    const { body } = await post("/v1/moderations", {
      input: [
        { type: "text", text: "a" },
        { type: "text", text: "b" },
      ],
    });
    expect(body.results).toEqual([result]);
    expect([tasks.asked().path, tasks.askedJson()]).toEqual([
      "/v1/moderations",
      { model: "as-served", input: ["a\nb"] },
    ]);
  });

  it("returns 400 for a model of another task", async () => {
    tasks.offer({ task: "embeddings" });
    const { status, body } = await post("/v1/moderations", { model: "org/model", input: "x" });
    expect([status, body.error.code]).toEqual([400, "unsupported_task"]);
  });

  it("returns 404 where no classifier is deployed, and 422 for images", async () => {
    tasks.offer({ task: "text-generation" });
    expect((await post("/v1/moderations", { input: "x" })).status).toBe(404);
    const image = [{ type: "image_url", image_url: { url: "data:image/png;base64,eA==" } }];
    expect((await post("/v1/moderations", { input: image })).status).toBe(422);
  });
});
