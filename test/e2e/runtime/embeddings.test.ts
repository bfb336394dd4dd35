import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { referenceOf, sharedModel } from "../../fakes/shared-models.ts";
import { type RuntimeProcess, startRuntime } from "./runtime-process.ts";

const model = sharedModel("all-MiniLM-L6-v2", "embeddings of a real model, as its reference says");

describe.runIf(model)("a model server with a sentence embedding model", () => {
  const name = "sentence-transformers/all-MiniLM-L6-v2";
  let runtime: RuntimeProcess;
  beforeAll(async () => {
    runtime = await startRuntime({
      STOKER_MODEL_PATH: model ?? "",
      STOKER_SERVED_MODEL_NAME: name,
      STOKER_MAX_BATCH_SIZE: "16",
      STOKER_GPU_LAYERS: "0",
    });
  });
  afterAll(() => runtime?.stop());

  const sentences: { text: string; embedding: number[] }[] = model ? referenceOf(model).sentences : [];
  const tokenIds: number[][] = model ? Object.values(referenceOf(model).token_ids) : [];
  const cosine = (a: readonly number[], b: readonly number[]) => {
    const dot = (x: readonly number[], y: readonly number[]) => x.reduce((sum, v, i) => sum + v * (y[i] as number), 0);
    return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
  };
  const embed = async (body: object) => (await runtime.post("/v1/embeddings", { model: name, ...body })).body;

  it("gives the reference's embeddings, one by one and in a batch, and counts their tokens", async () => {
    const together = await embed({ input: sentences.map(({ text }) => text) });
    const alone = await Promise.all(sentences.map(({ text }) => embed({ input: text })));
    for (const [index, { embedding }] of sentences.entries()) {
      expect(cosine(together.data[index].embedding, embedding)).toBeGreaterThan(0.985);
      expect(cosine(alone[index].data[0].embedding, embedding)).toBeGreaterThan(0.985);
    }
    const tokens = tokenIds.flat().length;
    expect(together.usage).toEqual({ prompt_tokens: tokens, total_tokens: tokens });
    expect(alone.reduce((sum, { usage }) => sum + usage.prompt_tokens, 0)).toBe(tokens);
  });

  it("computes single requests of one caller on the server's own thread", async () => {
    for (const { text, embedding } of sentences) {
      const { data } = await embed({ input: text });
      expect(cosine(data[0].embedding, embedding)).toBeGreaterThan(0.985);
    }
  });

  it("gives the same numbers as base64, from tokens, and cut to fewer dimensions", async () => {
    const text = sentences[0]?.text;
    const [plain, coded, cut, long] = await Promise.all([
      embed({ input: text }),
      embed({ input: text, encoding_format: "base64" }),
      embed({ input: text, dimensions: 64 }),
      embed({ input: text, dimensions: 500 }),
    ]);
    const bytes = Buffer.from(coded.data[0].embedding, "base64");
    const floats = Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(i * 4));
    expect(cosine(floats, plain.data[0].embedding)).toBeGreaterThan(0.995);
    const ids = await embed({ input: tokenIds[0]?.slice(1, -1) });
    expect(cosine(ids.data[0].embedding, plain.data[0].embedding)).toBeGreaterThan(0.995);
    expect(cut.data[0].embedding).toHaveLength(64);
    expect(Math.hypot(...cut.data[0].embedding)).toBeCloseTo(1, 5);
    expect(long.data[0].embedding.slice(384)).toEqual(Array(116).fill(0));
  });

  it("refuses one request that is too long while the others of its batch are answered", async () => {
    const [good, bad] = await Promise.all([
      runtime.post("/v1/embeddings", { input: "a text" }),
      runtime.post("/v1/embeddings", { input: ["fine", "long ".repeat(600)] }),
    ]);
    expect(good.status).toBe(200);
    expect(bad.status).toBe(400);
    expect(bad.body.error).toMatchObject({ code: "context_length_exceeded", param: "input" });
    expect(bad.body.error.message).toMatch(/input\[1\] has 602 tokens and this model takes 512/);
  });

  it("refuses a text of megabytes at once", async () => {
    const startedAt = performance.now();
    const { status, body } = await runtime.post("/v1/embeddings", { input: "a".repeat(9 * 1024 * 1024) });
    expect(status).toBe(400);
    expect(body.error).toMatchObject({ code: "context_length_exceeded", param: "input" });
    expect(body.error.message).toBe("input has more than 512 tokens and this model takes 512; shorten it");
    expect(performance.now() - startedAt).toBeLessThan(9_000);
  });

  it("responds in the native form, normalised only on request", async () => {
    const { body } = await runtime.post("/v1/infer", { inputs: ["a", "b"], normalize: false });
    expect(body.embeddings).toHaveLength(2);
    expect(Math.hypot(...body.embeddings[0])).toBeGreaterThan(2);
    expect(body.input_tokens).toBe(6);
  });

  it("says that it is no chat model instead of answering as one", async () => {
    const { status, body } = await runtime.post("/v1/chat/completions", { messages: [] });
    expect(status).toBe(400);
    expect(body.error.message).toContain("/v1/embeddings");
  });

  it("reports the usage of a client that disconnected, its batches, and its provider", async () => {
    await runtime.post("/v1/embeddings", { input: "a" }, { "x-stoker-request-id": "known" });
    expect((await runtime.get("/usage/known")).body).toMatchObject({ input_tokens: 3, items: 1, finished: true });
    expect((await runtime.get("/health")).body).toMatchObject({
      status: "ready",
      provider: "cpu",
      context_length: 512,
    });
    const page = await (await fetch(`${runtime.url}/metrics`)).text();
    expect(page).toMatch(/gen_ai_server_request_duration_seconds_count\{gen_ai_operation_name="embeddings"[^}]*\} \d/);
    expect(page).toMatch(/stoker_runtime_batch_size_count [1-9]/);
    expect(page).toContain("stoker_runtime_fallback 0");
  });
});
