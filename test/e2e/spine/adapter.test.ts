// A LoRA adapter under the whole stack: put on a running base by the public API, fetched from a hub, loaded without a restart,
// asked by its name, billed at its price, and gone when it is dropped.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type FakeHub, startHub } from "../../fakes/hub.ts";
import { isNightly } from "../../fakes/nightly.ts";
import { askEngine, instancePids, type Stack, startStack } from "../../fakes/processes.ts";
import { referenceOf, sharedModel } from "../../fakes/shared-models.ts";
import { usageOf } from "./database.ts";
import { demoModel, deploySmolLM, hasRealModel } from "./model.ts";

if (!isNightly)
  console.warn("NOT PROVEN here: an adapter whose engine is killed while it loads. npm run test:nightly does.");

const promise = "a LoRA adapter through gateway, agent and model server";
const folder = sharedModel("smollm2-pirate-lora", promise);
const repo = "ada/smollm2-pirate-lora";
const name = "admin/pirate";
const wait = { timeout: 60_000, interval: 200 };

describe.runIf(folder && hasRealModel(promise))("the spine with a LoRA adapter", () => {
  let stack: Stack;
  let hub: FakeHub;
  let client: OpenAI;
  let prompt: string;
  beforeAll(async () => {
    const files = Object.fromEntries(
      ["adapter_config.json", "adapter_model.safetensors"].map((file) => [
        file,
        readFileSync(join(folder ?? "", file)),
      ]),
    );
    hub = await startHub({ repo, files });
    stack = await startStack({ agentEnv: { HF_ENDPOINT: hub.url }, controlPlaneEnv: { HF_ENDPOINT: hub.url } });
    await deploySmolLM(stack, 2);
    client = new OpenAI({ apiKey: stack.apiKey, baseURL: `${stack.url}/v1/compat`, maxRetries: 0 });
    prompt = referenceOf(folder ?? "").llama_cpp_q4_1_with_gguf_lora[0].prompt;
  });
  afterAll(async () => {
    await stack?.stop();
    await hub?.close();
  });

  const ask = (model: string) =>
    client.chat.completions
      .create({ model, messages: [{ role: "user", content: prompt }], temperature: 0, max_tokens: 12 })
      .withResponse();
  const says = async (model: string) => (await ask(model)).data.choices[0]?.message.content ?? "";
  const listed = async () =>
    (await stack.call("GET", "/v1/models")).body.data as { id: string; parent: string | null }[];
  const heldByEngine = async () => {
    const answer = await askEngine(stack.agentFolder(1), "/v1/models");
    return ((await answer.json()) as { data: unknown[] }).data.length - 1;
  };

  it("serves like its reference on the running base, which serves as before", async () => {
    const pids = instancePids(stack.agentFolder(1));
    expect(await says(demoModel)).not.toMatch(/ahoy/i);
    const made = await stack.call("POST", "/lora-model", {
      hf_model_name: repo,
      lora_model_name: name,
      base_model_name: demoModel,
    });
    expect(made.status, JSON.stringify(made.body)).toBe(200);
    expect(made.body).toMatchObject({ type: "lora", model_name: name, task: "text-generation" });
    // Whoever asks before it is there waits for it.
    expect(await says(name)).toMatch(/^Ahoy!/);
    await vi.waitFor(async () => {
      const { body } = await stack.call("GET", `/v1/lora/${name}/status`);
      expect(body).toMatchObject({ status: "deployed", fail_reason: "", deploy_id: made.body.deploy_id });
    }, wait);
    expect(await says(demoModel)).not.toMatch(/ahoy/i);
    expect(instancePids(stack.agentFolder(1))).toEqual(pids);
    await vi.waitFor(
      async () => expect(await listed()).toContainEqual(expect.objectContaining({ id: name, parent: demoModel })),
      wait,
    );
  });

  it("is billed at half as much again as its base, under its own name", async () => {
    const { response } = await ask(name);
    const [row] = await vi.waitFor(async () => {
      const rows = await usageOf(stack.databaseUrl, response.headers.get("x-stoker-request-id") ?? "");
      expect(rows).toHaveLength(1);
      return rows;
    }, wait);
    const { input_tokens = 0, cached_input_tokens = 0, output_tokens = 0 } = row ?? {};
    expect(output_tokens).toBeGreaterThan(0);
    // Nano-USD: the base is offered at 20, 10 and 40 per token.
    expect(row?.charge).toBe((input_tokens - cached_input_tokens) * 30 + cached_input_tokens * 15 + output_tokens * 60);
    const usage = await stack.call("GET", "/payment/usage?from=current");
    expect(JSON.stringify(usage.body)).toContain(name);
  });

  it("is still served after kill -9 of the agent, without being loaded again", async () => {
    const fetched = hub.requests.length;
    await stack.agents[0]?.kill9();
    stack.agents[0]?.start();
    await vi.waitFor(async () => expect(await says(name)).toMatch(/^Ahoy!/), wait);
    expect(hub.requests.length).toBe(fetched);
  });

  it("is gone from gateway and engine when it is dropped, and its base serves on", async () => {
    expect((await stack.call("DELETE", `/lora-model/${name}`)).body).toMatchObject({ status: "deleted" });
    await vi.waitFor(async () => expect(await heldByEngine()).toBe(0), wait);
    await expect(ask(name)).rejects.toMatchObject({ status: 404 });
    expect((await stack.call("GET", `/v1/lora/${name}/status`)).status).toBe(404);
    expect(await says(demoModel)).not.toMatch(/ahoy/i);
  });

  it.runIf(isNightly)("is served after its engine was killed while it loads, and so is its base", async () => {
    const made = await stack.call("POST", "/lora-model", {
      hf_model_name: repo,
      lora_model_name: name,
      base_model_name: demoModel,
    });
    expect(made.status, JSON.stringify(made.body)).toBe(200);
    const [engine = 0] = instancePids(stack.agentFolder(1));
    process.kill(engine, "SIGKILL");
    const restarted = { timeout: 120_000, interval: 500 };
    await vi.waitFor(async () => expect(await says(name)).toMatch(/^Ahoy!/), restarted);
    expect(instancePids(stack.agentFolder(1))).not.toContain(engine);
    expect(await heldByEngine()).toBe(1);
    expect((await stack.call("GET", `/v1/lora/${name}/status`)).body).toMatchObject({ status: "deployed" });
    expect(await says(demoModel)).not.toMatch(/ahoy/i);
  });
});
