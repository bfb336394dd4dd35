// ONNX models on CUDA: the provider really runs them, answers stay what they are, batches pay.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { type ServedModel, serveModel } from "../fakes/served-model.ts";
import { referenceOf, sharedModel } from "../fakes/shared-models.ts";
import { writeVisionModel } from "../fakes/synthetic-vision.ts";
import { hasGpu, usedMiB } from "./gpu.ts";

const isHere = hasGpu("ONNX models on CUDA: provider, equal answers, batch scaling");
const digits = isHere ? sharedModel("digits-classifier", "batch scaling of a real model on CUDA") : undefined;
const onGpu = { hasGpu: true, provider: "cuda", threads: 4, latencyBudgetMs: 2 } as const;
const root = mkdtempSync(join(tmpdir(), "stoker-gpu-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

async function withModel<T>(path: string, more: object, use: (model: ServedModel) => Promise<T>): Promise<T> {
  const model = await serveModel(path, more);
  try {
    return await use(model);
  } finally {
    await model.close();
  }
}

/** A fallback to the processor is told in the warnings: they are shown when this fails. */
function expectCuda({ state }: ServedModel): void {
  expect([state.engine?.provider, state.engine?.warnings]).toEqual(["cuda", []]);
}

describe.runIf(digits)("a picture classifier on CUDA", () => {
  const [sample] = digits ? referenceOf(digits).samples : [];
  const image = digits ? readFileSync(join(digits, sample.file)).toString("base64") : "";
  const ask = (model: ServedModel) => model.post("/v1/infer", { image });

  it("runs there, takes memory of the GPU, and recognises what it recognises elsewhere", async () => {
    const before = usedMiB();
    await withModel(digits as string, onGpu, async (model) => {
      expectCuda(model);
      expect(usedMiB()).toBeGreaterThan(before);
      expect((await ask(model)).body.results[0]).toMatchObject({ label: sample.label });
    });
  });

  it("does more of them at a time than one by one", async () => {
    const perSecond = (maxBatchSize: number, callers: number) =>
      withModel(digits as string, { ...onGpu, maxBatchSize }, async (model) => {
        await Promise.all(Array.from({ length: callers }, () => ask(model)));
        const startedAt = performance.now();
        const each = 512 / callers;
        const one = async () => {
          for (let i = 0; i < each; i += 1) expect((await ask(model)).status).toBe(200);
        };
        await Promise.all(Array.from({ length: callers }, one));
        return 512_000 / (performance.now() - startedAt);
      });
    const [single, batched] = [await perSecond(1, 1), await perSecond(64, 64)];
    process.stderr.write(
      `\npictures a second on CUDA: ${single.toFixed(0)} one by one, ${batched.toFixed(0)} in batches\n`,
    );
    expect(batched / single).toBeGreaterThan(1.5);
  });
});

describe.runIf(isHere)("a model that reads pictures on CUDA", () => {
  it("says what it says elsewhere, its memory of the text staying with the graph", async () => {
    const folder = join(root, "vision");
    await writeVisionModel(folder);
    const references = JSON.parse(readFileSync(join(import.meta.dirname, "../fixtures/onnx/vision.json"), "utf8"));
    await withModel(folder, onGpu, async (model) => {
      expectCuda(model);
      const url = `data:image/png;base64,${readFileSync(join(folder, "picture-0.png")).toString("base64")}`;
      const content = [
        { type: "image_url", image_url: { url } },
        { type: "text", text: "What is this?" },
      ];
      const ask = { model: "o/m", messages: [{ role: "user", content }], temperature: 0, max_tokens: 24 };
      const { body } = await model.post("/v1/chat/completions", ask);
      // Matrix products in TensorFloat-32 differ in the third digit: late in the answer two near tokens may change places.
      expect(body.choices[0].message.content.slice(0, 6)).toBe(references.wide.text.slice(0, 6));
    });
  });
});
