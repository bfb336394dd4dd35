// ONNX models under the whole stack: deployed by their task, offered, asked through the public API, and billed; and a picture
// model with adapters.
import { createHash } from "node:crypto";
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { apart, blockMeans, imageReference } from "../../fakes/block-means.ts";
import type { FileServer } from "../../fakes/file-server.ts";
import { type FakeHub, startContentHost, startHub } from "../../fakes/hub.ts";
import { imageAdapter, peftConfig } from "../../fakes/image-adapter.ts";
import { askEngines, instancePids, type Stack, startStack } from "../../fakes/processes.ts";
import { referenceOf, sharedModel } from "../../fakes/shared-models.ts";
import { hasCurl, recordOf, runLine } from "../../fakes/shell-line.ts";
import { usageOf } from "./database.ts";

const model = sharedModel("all-MiniLM-L6-v2", "an embedding model through gateway, agent and model server");
const name = "sentence-transformers/all-MiniLM-L6-v2";
const painter = "stoker/digits-diffusion";
const waiting = { timeout: 60_000, interval: 200 };
const diffusion = sharedModel("digits-diffusion", "a diffusion pipeline through gateway, agent and model server");

/** By the names of the tools that wrote them: kohya's from a URL, PEFT's from the hub. */
const adapters = { url: "admin/by-url", hub: "admin/by-hub" };
const adapterRepo = "ada/digits-lora";

describe.runIf(model)("the spine with an embedding model", () => {
  let stack: Stack;
  let hub: FakeHub;
  let host: FileServer;
  beforeAll(async () => {
    const peft = {
      "adapter_config.json": Buffer.from(JSON.stringify(peftConfig)),
      "adapter_model.safetensors": imageAdapter("peft"),
    };
    hub = await startHub({ repo: adapterRepo, files: peft });
    host = await startContentHost({ "kohya.safetensors": imageAdapter("kohya") });
    const env = { HF_ENDPOINT: hub.url, STOKER_ADAPTER_URL_ALLOW_PRIVATE: "1" };
    stack = await startStack({
      controlPlaneEnv: { ...env, STOKER_DEMO_MODELS: dirname(model ?? "") },
      agentEnv: env,
    });
    const id = await deploy(stack, name, "embeddings");
    const pricing = { input: 0.005, cached_input: 0.005, output: 0 };
    const terms = { deploy_id: id, description: "test", pricing };
    const offered = await stack.call("PUT", `/v1/admin/models/${name}`, terms);
    expect(offered.status, JSON.stringify(offered.body)).toBe(200);
  });
  afterAll(async () => {
    await stack?.stop();
    await hub?.close();
    await host?.close();
  });

  /** The one record of a request. */
  async function billed(requestId: string | null) {
    const rows = await vi.waitFor(async () => {
      const found = await usageOf(stack.databaseUrl, requestId ?? "");
      expect(found).toHaveLength(1);
      return found;
    }, waiting);
    return rows[0];
  }

  it("keeps its graph, as it was optimised for this host, where the next instance finds it", () => {
    const folder = join(stack.agentFolder(1), "graphs");
    const [deployment] = readdirSync(folder);
    expect(readdirSync(join(folder, deployment ?? "")).filter((name) => name.endsWith(".onnx"))).toHaveLength(1);
  });

  it("serves OpenAI's own client with the reference's embeddings and bills their tokens", async () => {
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
    const row = await billed(response.headers.get("x-stoker-request-id"));
    expect(row).toMatchObject({ input_tokens: tokens, output_tokens: 0, source: "engine" });
  });

  it.runIf(diffusion)(
    "paints with a pipeline that is deployed beside it, and bills images, size and steps",
    async () => {
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
      const row = await billed(response.headers.get("x-stoker-request-id"));
      // 2 of 64 x 64 at USD 0.009 for 1024 x 1024 and as many steps, in nano-USD.
      expect(row).toMatchObject({ charge: 70_313, source: "engine" });
    },
    180_000,
  );

  /** The block means of what the model of that name paints of the reference's text. */
  async function painted(name: string): Promise<readonly number[]> {
    const answer = await stack.call("POST", `/v1/inference/${name}`, {
      prompt: imageReference.prompt,
      num_inference_steps: imageReference.steps,
      guidance_scale: 4,
      seed: 42,
      width: 64,
      height: 64,
    });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    return blockMeans((answer.body.images[0] as string).replace(/^data:image\/png;base64,/, ""));
  }

  it.runIf(diffusion)(
    "paints with adapters from a URL and from the hub as another program does with the same weights changed",
    async () => {
      const pids = instancePids(stack.agentFolder(1));
      const sources = {
        [adapters.url]: { type: "civitai", civit_url: `${host.url}/kohya.safetensors?signature=1` },
        [adapters.hub]: { type: "huggingface", repo: adapterRepo },
      };
      const base = await painted(painter);
      expect(apart(base, imageReference.block_means)).toBeGreaterThan(0.05);
      for (const [lora_name, source] of Object.entries(sources)) {
        const made = await stack.call("POST", "/v1/lora/create", { base_model: painter, lora_name, source });
        expect(made.status, JSON.stringify(made.body)).toBe(200);
        expect(made.body).toMatchObject({ type: "lora", model_name: lora_name, task: "text-to-image" });
        // Whoever asks before it is there waits for it.
        expect(apart(await painted(lora_name), imageReference.block_means)).toBeLessThan(0.006);
      }
      await vi.waitFor(async () => {
        const shown = (await stack.call("GET", "/v1/user/loras")).body as Record<string, unknown>[];
        const digest = createHash("sha256").update(imageAdapter("kohya")).digest("hex");
        expect(shown).toContainEqual(
          expect.objectContaining({
            lora_name: adapters.url,
            status: "deployed",
            source: { type: "civitai", civit_url: `${host.url}/kohya.safetensors` },
            commit: digest,
          }),
        );
        expect(shown).toContainEqual(
          expect.objectContaining({ lora_name: adapters.hub, status: "deployed", commit: hub.commit }),
        );
      }, waiting);
      expect(apart(await painted(painter), base)).toBeLessThan(0.001);
      expect(instancePids(stack.agentFolder(1))).toEqual(pids);
    },
    180_000,
  );

  it.runIf(diffusion)("bills a picture of an adapter at half as much again as its base's", async () => {
    const client = new OpenAI({ apiKey: stack.apiKey, baseURL: `${stack.url}/v1/compat`, maxRetries: 0 });
    const ask = { model: adapters.hub, prompt: "digit 3", n: 2, size: "64x64" as "auto" };
    const { response } = await client.images.generate(ask).withResponse();
    const row = await billed(response.headers.get("x-stoker-request-id"));
    expect(row).toMatchObject({ charge: 105_469, source: "engine" });
  });

  it.runIf(diffusion)("holds its adapters over kill -9 of the agent, until they are dropped", async () => {
    const asked = [hub, host].map(({ requests }) => requests.length);
    await stack.agents[0]?.kill9();
    stack.agents[0]?.start();
    await vi.waitFor(
      async () => expect(apart(await painted(adapters.url), imageReference.block_means)).toBeLessThan(0.006),
      waiting,
    );
    expect([hub, host].map(({ requests }) => requests.length)).toEqual(asked);
    for (const name of Object.values(adapters))
      expect((await stack.call("DELETE", `/v1/lora/${name}`)).body).toMatchObject({ status: "deleted" });
    const held = async (answer: Response) => {
      const { data } = (await answer.json()) as { data: { parent?: string }[] };
      return data.filter(({ parent }) => parent !== undefined).length;
    };
    await vi.waitFor(async () => {
      const counts = await Promise.all((await askEngines(stack.agentFolder(1), "/v1/models")).map(held));
      expect(counts.reduce((a, b) => a + b, 0)).toBe(0);
    }, waiting);
    expect((await stack.call("GET", `/v1/lora/${adapters.url}/status`)).status).toBe(404);
  });

  it.runIf(hasCurl)("is called by the lines of its record as they stand", async () => {
    const { curl_inv, cmdline_inv } = await recordOf(stack, name);
    for (const line of [curl_inv, `${cmdline_inv} --json`]) {
      const { out, err, code } = await runLine(line, stack);
      expect(code, err).toBe(0);
      expect((JSON.parse(out).embeddings as number[][]).map((one) => one.length)).toEqual([384, 384]);
    }
  });

  it("serves native inference, and reports an input that is too long", async () => {
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
