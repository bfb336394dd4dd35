// Every task but speech and images made: real weights where they are at hand, synthetic ones elsewhere, against answers
// computed by other programs (test/fixtures/onnx/reference.py).
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { type ServedModel, serveModel } from "../../fakes/served-model.ts";
import { referenceOf, sharedModel } from "../../fakes/shared-models.ts";
import { writeSyntheticModel } from "../../fakes/synthetic-models.ts";

const base = sharedModel("all-MiniLM-L6-v2", "tasks of synthetic models (rerank, classification, and so on)");
const digits = sharedModel("digits-classifier", "image classification by a real model");
const references = JSON.parse(readFileSync(join(import.meta.dirname, "../../fixtures/onnx/references.json"), "utf8"));
const root = mkdtempSync(join(tmpdir(), "stoker-tasks-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** Quantised sums differ a little from processor to processor, and from one release of the library to the next. */
const tolerance = 0.03;

async function withModel(name: string, test: (model: ServedModel) => Promise<void>): Promise<void> {
  writeSyntheticModel(name, base ?? "", join(root, name));
  const model = await serveModel(join(root, name));
  try {
    await test(model);
  } finally {
    await model.close();
  }
}

interface Scored {
  readonly label: string;
  readonly score: number;
}

function expectScores(found: readonly Scored[], expected: readonly Scored[]): void {
  expect(found.map(({ score }) => score)).toEqual(found.map(({ score }) => score).sort((a, b) => b - a));
  const byLabel = new Map(found.map(({ label, score }) => [label, score]));
  expect(byLabel.size).toBe(expected.length);
  for (const { label, score } of expected) expect(Math.abs((byLabel.get(label) ?? 9) - score)).toBeLessThan(tolerance);
}

const samples: { file: string; label: string; score: number }[] = digits ? referenceOf(digits).samples : [];
const pictureOf = (file: string) => readFileSync(join(digits ?? "", file)).toString("base64");

describe.runIf(base)("synthetic text models answer as their references do", () => {
  it("reranks pairs, documents for one query, and requests in the form of other rerankers", () =>
    withModel("reranker", async (model) => {
      const { query, documents, scores, tokens } = references.reranker;
      const native = await model.post("/v1/infer", { queries: [query], documents });
      expect(native.body.input_tokens).toBe(tokens);
      const pairs = await model.post("/v1/rerank", { queries: documents.map(() => query), documents });
      for (const [index, score] of scores.entries()) {
        expect(Math.abs(native.body.scores[index] - score)).toBeLessThan(tolerance);
        expect(Math.abs(pairs.body.scores[index] - score)).toBeLessThan(tolerance);
      }
      const body = { query, documents, top_n: 2, return_documents: true };
      const best = await model.post("/v1/rerank", body);
      expect(best.body.results).toHaveLength(2);
      expect(best.body.results.map((one: { index: number }) => one.index).sort()).toEqual([0, 1]);
      expect(best.body.results[0].document.text).toBe(documents[best.body.results[0].index]);
      const mismatch = await model.post("/v1/infer", { queries: ["a", "b"], documents: ["a", "b", "c"] });
      expect(mismatch.status).toBe(422);
      expect((await model.post("/v1/infer", { queries: ["a"], documents: ["b"], instruction: "x" })).status).toBe(400);
    }));

  it("classifies texts with all labels, the likeliest first, and refuses labels that it does not know", () =>
    withModel("text-classification", async (model) => {
      const { input, results } = references["text-classification"];
      const { body } = await model.post("/v1/infer", { input });
      expectScores(body.results, results);
      expect(body.usage.prompt_tokens).toBeGreaterThan(5);
      const refused = await model.post("/v1/infer", { input, candidate_labels: ["a"] });
      expect(refused.status).toBe(400);
      expect((await model.post("/v1/infer", {})).status).toBe(422);
      const both = await model.post("/v1/infer", { inputs: [input, "Something else"] });
      expect(both.body.results).toHaveLength(2);
      expectScores(both.body.results[0], results);
      expect(both.body.usage.items).toBe(2);
      for (const inputs of [[], [""], [1], Array.from({ length: 129 }, () => "x")])
        expect((await model.post("/v1/infer", { inputs })).status).toBe(422);
    }));

  it("classifies texts by given labels, one of them or each by itself", () =>
    withModel("zero-shot-classification", async (model) => {
      const { input, candidate_labels, results, multi } = references["zero-shot-classification"];
      expectScores((await model.post("/v1/infer", { input, candidate_labels })).body.results, results);
      const each = await model.post("/v1/infer", { input, candidate_labels, multi_label: true });
      expectScores(each.body.results, multi);
      const without = await model.post("/v1/infer", { input, candidate_labels, hypothesis_template: "no place" });
      expect(without.status).toBe(422);
    }));

  it("finds entities with their offsets in the text", () =>
    withModel("token-classification", async (model) => {
      const { input, results } = references["token-classification"];
      const { body } = await model.post("/v1/infer", { input });
      // A label that wins by a hair may lose it on another processor; the surest may not.
      const sure = results.filter(({ score }: Scored) => score > 0.6);
      expect(sure.length).toBeGreaterThan(2);
      for (const { score, ...entity } of sure) {
        const found = body.results.find((one: { start: number }) => one.start === entity.start);
        expect(found).toMatchObject(entity);
        expect(Math.abs(found.score - score)).toBeLessThan(tolerance);
      }
    }));

  it("fills one gap with the words that fit, and refuses several gaps", () =>
    withModel("fill-mask", async (model) => {
      const { input, results } = references["fill-mask"];
      const { body } = await model.post("/v1/infer", { input });
      expect(body.results).toHaveLength(5);
      expect(body.results[0].token).toBe(results[0].token);
      expect(Math.abs(body.results[0].score - results[0].score)).toBeLessThan(tolerance);
      expect(body.results[0].sequence).toContain(body.results[0].token_str.replace("##", ""));
      const none = await model.post("/v1/infer", { input: "no gap" });
      expect(none.status).toBe(400);
      expect(none.body.error.message).toContain("[MASK] exactly once");
    }));

  it("finds the part of the text that is the answer, in whole words, and reads a long text by windows", () =>
    withModel("question-answering", async (model) => {
      const { question, context, answer, score, start, end } = references["question-answering"];
      const { body } = await model.post("/v1/infer", { question, context });
      expect(body).toMatchObject({ answer, start, end });
      expect(Math.abs(body.score - score)).toBeLessThan(tolerance);
      const long = await model.post("/v1/infer", { question, context: `${context} `.repeat(30) });
      expect(long.status).toBe(200);
      expect(long.body.usage.items).toBeGreaterThan(1);
      expect(`${context} `.repeat(30).slice(long.body.start, long.body.end)).toBe(long.body.answer);
    }));
});

describe.runIf(base && digits)("synthetic image models answer as their references do", () => {
  const image = () => pictureOf("samples/real-3.png");

  it("classifies images by given labels", () =>
    withModel("zero-shot-image-classification", async (model) => {
      const { candidate_labels, results } = references["zero-shot-image-classification"];
      const { body } = await model.post("/v1/infer", { image: image(), candidate_labels });
      expectScores(body.results, results);
      expect((await model.post("/v1/infer", { image: image() })).status).toBe(422);
    }));

  it("detects objects with boxes in the picture's pixels", () =>
    withModel("object-detection", async (model) => {
      const { threshold, results } = references["object-detection"];
      const { body } = await model.post("/v1/infer", { image: `data:image/png;base64,${image()}`, threshold });
      expect(body.results).toHaveLength(results.length);
      for (const [index, { label, score, box }] of results.entries()) {
        expect(body.results[index].label).toBe(label);
        expect(Math.abs(body.results[index].score - score)).toBeLessThan(0.001);
        for (const side of Object.keys(box))
          expect(Math.abs(body.results[index].box[side] - box[side])).toBeLessThanOrEqual(1);
      }
    }));
});

describe.runIf(digits)("a real image classifier", () => {
  it("names every digit of the samples with the reference's score, and refuses what is no picture", async () => {
    const model = await serveModel(digits ?? "");
    try {
      const answers = await Promise.all(samples.map(({ file }) => model.post("/v1/infer", { image: pictureOf(file) })));
      expect(answers.length).toBeGreaterThan(9);
      for (const [index, { label, score }] of samples.entries()) {
        expect(answers[index]?.body.results[0].label).toBe(label);
        expect(Math.abs(answers[index]?.body.results[0].score - score)).toBeLessThan(0.02);
      }
      const text = await model.post("/v1/infer", { image: Buffer.from("no picture").toString("base64") });
      expect(text.body.error.message).toContain("no PNG");
      const address = await model.post("/v1/infer", { image: "http://example.com/a.png" });
      expect(address.status).toBe(400);
    } finally {
      await model.close();
    }
  });
});

describe.runIf(base && digits)("two models in one process under a mixed load with a failing item", () => {
  it("serve all other items as if alone", async () => {
    writeSyntheticModel("fill-mask", base ?? "", join(root, "fill-mask"));
    const [images, words] = await Promise.all([serveModel(digits ?? ""), serveModel(join(root, "fill-mask"))]);
    try {
      const ask = (file: string) => images.post("/v1/infer", { image: pictureOf(file) });
      const alone = await ask("samples/real-5.png");
      const bad = Buffer.from("89504e470d0a1a0a00", "hex").toString("base64");
      const mixed = await Promise.all([
        ask("samples/real-1.png"),
        images.post("/v1/infer", { image: bad }),
        words.post("/v1/infer", { input: "It is [MASK]." }),
        words.post("/v1/infer", { input: "no gap" }),
        ask("samples/real-5.png"),
      ]);
      expect(mixed.map(({ status }) => status)).toEqual([200, 400, 200, 400, 200]);
      const label = alone.body.results[0];
      expect(mixed[4]?.body.results[0].label).toBe(label.label);
      expect(mixed[4]?.body.results[0].score).toBeCloseTo(label.score, 4);
    } finally {
      await Promise.all([images.close(), words.close()]);
    }
  });
});
