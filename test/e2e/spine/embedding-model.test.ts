// An ONNX model under the whole stack: deployed by its task, offered, asked through the public API, and billed.
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type Stack, startStack } from "../../fakes/processes.ts";
import { referenceOf, sharedModel } from "../../fakes/shared-models.ts";
import { hasCurl, recordOf, runLine } from "../../fakes/shell-line.ts";
import { usageOf } from "./database.ts";

const model = sharedModel("all-MiniLM-L6-v2", "an embedding model through gateway, agent and model server");
const name = "sentence-transformers/all-MiniLM-L6-v2";
const diffusion = sharedModel("digits-diffusion", "a diffusion pipeline through gateway, agent and model server");

describe.runIf(model)("the spine with an embedding model", () => {
  let stack: Stack;
  beforeAll(async () => {
    stack = await startStack({ controlPlaneEnv: { STOKER_DEMO_MODELS: dirname(model ?? "") } });
    const id = await deploy(stack, name, "embeddings");
    const pricing = { input: 0.005, cached_input: 0.005, output: 0 };
    const terms = { deploy_id: id, description: "test", pricing };
    const offered = await stack.call("PUT", `/v1/admin/models/${name}`, terms);
    expect(offered.status, JSON.stringify(offered.body)).toBe(200);
  });
  afterAll(() => stack?.stop());

  it("keeps its graph, as it was optimised for this host, where the next instance finds it", () => {
    const folder = join(stack.agentFolder(1), "graphs");
    const [deployment] = readdirSync(folder);
    expect(readdirSync(join(folder, deployment ?? "")).filter((name) => name.endsWith(".onnx"))).toHaveLength(1);
  });

  it("answers OpenAI's own client with the reference's embeddings and bills their tokens", async () => {
    const client = new OpenAI({ apiKey: stack.apiKey, baseURL: `${stack.url}/v1/compat`, maxRetries: 0 });
    const { sentences, token_ids } = referenceOf(model ?? "");
    const input = sentences.map(({ text }: { text: string }) => text);
    const { data: answer, response } = await client.embeddings.create({ model: name, input }).withResponse();
    for (const [index, { embedding }] of sentences.entries()) {
      const cosine = (answer.data[index]?.embedding ?? []).reduce((sum, x, at) => sum + x * embedding[at], 0);
      expect(cosine).toBeGreaterThan(0.985);
    }
    const tokens = Object.values(token_ids as Record<string, number[]>).flat().length;
    expect(answer.usage.prompt_tokens).toBe(tokens);
    const [row] = await vi.waitFor(
      async () => {
        const rows = await usageOf(stack.databaseUrl, response.headers.get("x-stoker-request-id") ?? "");
        expect(rows).toHaveLength(1);
        return rows;
      },
      { timeout: 30_000, interval: 200 },
    );
    expect(row).toMatchObject({ input_tokens: tokens, output_tokens: 0, source: "engine" });
  });

  it.runIf(diffusion)(
    "paints with a pipeline that is deployed beside it, and bills images, size and steps",
    async () => {
      const painter = "stoker/digits-diffusion";
      const deploy_id = await deploy(stack, painter, "text-to-image");
      const pricing = { input: 0, cached_input: 0, output: 0, image: 0.009, image_steps: 20 };
      const offered = await stack.call("PUT", `/v1/admin/models/${painter}`, {
        deploy_id,
        description: "test",
        pricing,
      });
      expect(offered.status, JSON.stringify(offered.body)).toBe(200);
      const client = new OpenAI({ apiKey: stack.apiKey, baseURL: `${stack.url}/v1/compat`, maxRetries: 0 });
      const ask = { model: painter, prompt: "digit 3", n: 2, size: "64x64" as "auto" };
      const { data: answer, response } = await client.images.generate(ask).withResponse();
      const pictures = (answer.data ?? []).map(({ b64_json }) => Buffer.from(b64_json ?? "", "base64").subarray(1, 4));
      expect(pictures.map(String)).toEqual(["PNG", "PNG"]);
      const [row] = await vi.waitFor(
        async () => {
          const rows = await usageOf(stack.databaseUrl, response.headers.get("x-stoker-request-id") ?? "");
          expect(rows).toHaveLength(1);
          return rows;
        },
        { timeout: 30_000, interval: 200 },
      );
      // 2 of 64 x 64 at USD 0.009 for 1024 x 1024 and as many steps, in nano-USD.
      expect(row).toMatchObject({ charge: 70_313, source: "engine" });
    },
    180_000,
  );

  it.runIf(hasCurl)("is called by the lines of its record as they stand", async () => {
    const { curl_inv, cmdline_inv } = await recordOf(stack, name);
    for (const line of [curl_inv, `${cmdline_inv} --json`]) {
      const { out, err, code } = await runLine(line, stack);
      expect(code, err).toBe(0);
      expect((JSON.parse(out).embeddings as number[][]).map((one) => one.length)).toEqual([384, 384]);
    }
  });

  it("answers native inference, and says so when an input is too long", async () => {
    const answer = await stack.call("POST", `/v1/inference/${name}`, { inputs: ["one", "two"], normalize: true });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    const { embeddings, input_tokens } = answer.body as { embeddings: number[][]; input_tokens: number };
    expect(embeddings.map((one) => one.length)).toEqual([384, 384]);
    expect(input_tokens).toBe(6);
    const long = await stack.call("POST", `/v1/inference/${name}`, { inputs: ["long ".repeat(600)] });
    expect(long.status).toBe(400);
    expect(JSON.stringify(long.body)).toContain("this model takes 512");
  });
});

/** Returns the deployment's id once it serves. */
async function deploy(stack: Stack, model: string, task: string): Promise<string> {
  const made = await stack.call("POST", "/deploy/hf/", { model_name: model, task, gpu: "other", max_batch_size: 16 });
  expect(made.status, JSON.stringify(made.body)).toBe(200);
  const id = made.body.deploy_id as string;
  await vi.waitFor(
    async () => {
      const { status, fail_reason } = (await stack.call("GET", `/deploy/${id}`)).body;
      expect(status, fail_reason as string).toBe("deployed");
    },
    { timeout: 150_000, interval: 300 },
  );
  return id;
}
