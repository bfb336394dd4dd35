import { afterAll, beforeAll, describe, expect, it } from "vitest";
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
