// From the public endpoints through the agent's data path to real models of other tasks than text, and what it cost.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { apiKey } from "../../fakes/ports.ts";
import { type ServedModel, serveModel } from "../../fakes/served-model.ts";
import { referenceOf, sharedModel } from "../../fakes/shared-models.ts";
import { form, startTaskEdge, type TaskEdge } from "../../fakes/task-edge.ts";

const sentences = sharedModel("all-MiniLM-L6-v2", "embeddings of a real model through the gateway");
const digits = sharedModel("digits-classifier", "pictures classified by a real model through the gateway");

let served: ServedModel;
let tasks: TaskEdge;
const start = async (model: string) => {
  served = await serveModel(model);
  tasks = await startTaskEdge(served.origin);
};
const stop = async () => {
  await tasks?.close();
  await served?.close();
};

const cosine = (a: readonly number[], b: readonly number[]) => {
  const dot = (x: readonly number[], y: readonly number[]) => x.reduce((sum, v, i) => sum + v * (y[i] as number), 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
};

describe.runIf(sentences)("a real embedding model behind the gateway", () => {
  beforeAll(() => start(sentences as string));
  afterAll(stop);
  const reference: { text: string; embedding: number[] }[] = sentences ? referenceOf(sentences).sentences : [];

  it("answers the official client as its reference says, and costs what its tokens cost", async () => {
    tasks.offer({ task: "embeddings", servedName: "o/m" });
    const client = new OpenAI({ apiKey, baseURL: `${tasks.edge.url}/v1/openai`, maxRetries: 0 });
    const answer = await client.embeddings.create({ model: "org/model", input: reference.map(({ text }) => text) });
    for (const [i, { embedding }] of reference.entries()) {
      expect(cosine(answer.data[i]?.embedding as number[], embedding)).toBeGreaterThan(0.985);
    }
    expect(answer.usage.prompt_tokens).toBeGreaterThan(reference.length);
    expect(tasks.settled()).toBe(BigInt(answer.usage.prompt_tokens) * 20n);
  });

  it("answers native inference with the same vectors", async () => {
    tasks.offer({ task: "embeddings", servedName: "o/m" });
    const inputs = reference.slice(0, 2).map(({ text }) => text);
    const body = await (await tasks.edge.post("/v1/inference/org/model", { inputs })).json();
    expect(cosine(body.embeddings[1], reference[1]?.embedding as number[])).toBeGreaterThan(0.985);
    expect(body.inference_status).toMatchObject({ status: "succeeded", tokens_input: body.input_tokens });
    expect(body.inference_status.cost).toBeGreaterThan(0);
  });

  it("is told to be of another task where it is asked for a chat", async () => {
    tasks.offer({ task: "embeddings", servedName: "o/m" });
    const chat = { model: "org/model", messages: [{ role: "user", content: "Hi" }] };
    const answer = await tasks.edge.post("/v1/chat/completions", chat);
    expect([answer.status, (await answer.json()).error.code]).toEqual([400, "unsupported_task"]);
  });
});

describe.runIf(digits)("a real image classifier behind the gateway", () => {
  beforeAll(() => start(digits as string));
  afterAll(stop);

  it("answers native inference for a file and for a data URI", async () => {
    tasks.offer({ task: "image-classification", servedName: "o/m" });
    const [sample] = referenceOf(digits as string).samples;
    const picture = readFileSync(join(digits as string, sample.file));
    const file = form({ image: new Blob([new Uint8Array(picture)], { type: "image/png" }) }, { image: "digit.png" });
    const sent = await (await tasks.send("/v1/inference/org/model", file)).json();
    expect(sent.results?.[0], JSON.stringify(sent)).toMatchObject({ label: sample.label });
    const image = `data:image/png;base64,${picture.toString("base64")}`;
    const told = await (await tasks.edge.post("/v1/inference/org/model", { image })).json();
    expect(told.results).toEqual(sent.results);
    expect(told.inference_status.status).toBe("succeeded");
  });
});
