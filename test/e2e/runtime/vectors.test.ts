import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ggufReranker } from "../../fakes/gguf-reranker.ts";
import { hasModel, type RuntimeProcess, startRuntime } from "./runtime-process.ts";

const cosine = (a: readonly number[], b: readonly number[]) => a.reduce((sum, x, i) => sum + x * (b[i] as number), 0);

// A text generator is asked for embeddings here: no weights of an embedding model in GGUF are at hand.
describe.runIf(hasModel("embeddings from GGUF models"))("a GGUF model deployed for embeddings", () => {
  let runtime: RuntimeProcess;
  beforeAll(async () => {
    runtime = await startRuntime({ STOKER_TASK: "embeddings", STOKER_CONTEXT_LENGTH: "64" });
  });
  afterAll(() => runtime?.stop());
  const embed = (input: unknown, more: object = {}) => runtime.post("/v1/embeddings", { model: "m", input, ...more });

  it("gives vectors of length one, alike where texts are alike, and counts their tokens", async () => {
    const texts = ["A cat sits on the mat.", "A cat sits on a mat.", "Interest rates rose by two percent."];
    const { status, body } = await embed(texts);
    expect(status).toBe(200);
    const [a, b, c] = body.data.map((entry: { embedding: number[] }) => entry.embedding) as [
      number[],
      number[],
      number[],
    ];
    expect(a).toHaveLength(576);
    expect(cosine(a, a)).toBeCloseTo(1, 4);
    expect(cosine(a, b)).toBeGreaterThan(cosine(a, c));
    expect(body.usage.prompt_tokens).toBeGreaterThan(15);
    // A text alone is the text among others, and base64 the same numbers.
    const alone = await embed(texts[0], { encoding_format: "base64" });
    const floats = new Float32Array(Uint8Array.from(Buffer.from(alone.body.data[0].embedding, "base64")).buffer);
    expect(cosine([...floats], a)).toBeCloseTo(1, 4);
  });

  it("refuses what it does not serve or cannot take, with the reason", async () => {
    expect(await runtime.post("/v1/chat/completions", { model: "m", messages: [] })).toMatchObject({
      status: 400,
      body: { error: { code: "unsupported_task" } },
    });
    expect(await embed("word ".repeat(200))).toMatchObject({ status: 422, body: { error: { message: /takes 63/ } } });
    expect(await embed([[999_999]])).toMatchObject({ status: 422 });
  });
});

describe("a GGUF cross-encoder (synthetic)", () => {
  const folder = mkdtempSync(join(tmpdir(), "stoker-gguf-"));
  const path = join(folder, "reranker.gguf");
  const reference = JSON.parse(
    readFileSync(join(import.meta.dirname, "../../fixtures/gguf/reranker.json"), "utf8"),
  ) as { readonly query: string; readonly documents: string[]; readonly scores: number[]; readonly tokens: number };
  let runtime: RuntimeProcess;
  beforeAll(async () => {
    writeFileSync(path, ggufReranker());
    runtime = await startRuntime({ STOKER_MODEL_PATH: path, STOKER_SERVED_MODEL_NAME: "m" });
  });
  afterAll(async () => {
    await runtime?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  it("scores pairs as numpy does from the same weights, and counts their tokens", async () => {
    const { query, documents, scores, tokens } = reference;
    const { status, body } = await runtime.post("/v1/infer", { queries: [query], documents });
    expect({ status, tokens: body.input_tokens }).toEqual({ status: 200, tokens });
    // Without the separator behind the document they are 0.005 to 0.02 apart.
    for (const [i, score] of scores.entries()) expect(Math.abs(body.scores[i] - score)).toBeLessThan(0.001);
  });

  it("refuses a pair that is longer than the model can read", async () => {
    const { status, body } = await runtime.post("/v1/infer", { queries: ["a"], documents: ["cats ".repeat(80)] });
    expect({ status, message: body.error?.message }).toEqual({
      status: 422,
      message: expect.stringMatching(/takes 63/),
    });
  });
});
