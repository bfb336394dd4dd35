import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { sharedModel } from "../../fakes/shared-models.ts";
import { follow, withoutPermutation } from "./near-ties.ts";
import { hasModel, type RuntimeProcess, startRuntime } from "./runtime-process.ts";

const model = "HuggingFaceTB/SmolLM2-135M-Instruct";
const promise = "LoRA adapters of the model server";
const found = sharedModel("smollm2-pirate-lora", promise);
const folder = found ?? "";

/**
 * In natural logarithms: tokens whose probabilities differ by less than a fifth may change places on another CPU, for weights and
 * activations are quantised. The wrong conversion's are 0.36 to 0.74 apart in every reply.
 */
const nearTie = 0.2;

interface Reference {
  readonly prompt: string;
  readonly with_adapter: string;
  readonly without_adapter: string;
}

describe.runIf(hasModel(promise) && found)("LoRA adapters", () => {
  let runtime: RuntimeProcess;
  let references: readonly Reference[];
  beforeAll(async () => {
    references = JSON.parse(readFileSync(join(folder, "reference.json"), "utf8")).llama_cpp_q4_1_with_gguf_lora;
    runtime = await startRuntime({ STOKER_MAX_BATCH_SIZE: "3" });
  });
  afterAll(() => runtime?.stop());

  const load = (lora_name: string, lora_path: string) =>
    runtime.post("/v1/load_lora_adapter", { lora_name, lora_path });
  const unload = (lora_name: string) => runtime.post("/v1/unload_lora_adapter", { lora_name });
  const ask = (name: string, prompt: string, more: object = {}) =>
    runtime.post("/v1/chat/completions", {
      model: name,
      temperature: 0,
      max_tokens: 40,
      messages: [{ role: "user", content: prompt }],
      ...more,
    });
  const reply = async (name: string, prompt: string) => (await ask(name, prompt)).body.choices[0].message.content;

  it("gives the whole of every recorded reply with a converted PEFT adapter, and none without it", async () => {
    expect(await load("ada/pirate", folder)).toMatchObject({ status: 200, body: /added successfully/ });
    for (const { prompt, with_adapter: said } of references) {
      const { gaps, upTo } = await follow(runtime, { model: "ada/pirate", prompt, reply: said });
      expect(said.slice(0, upTo), prompt).toBe(said);
      // Nowhere is another token likelier by more than another CPU's rounding makes it.
      expect(Math.max(0, ...gaps), prompt).toBeLessThan(nearTie);
      const bare = await ask(model, prompt, { max_tokens: 6 });
      expect(bare.body.choices[0].message.content).not.toMatch(/ahoy|matey/i);
    }
  });

  it("speaks as with llama.cpp's own conversion, and not as with one that forgets to reorder the rows of q and k", async () => {
    expect((await load("gguf", join(folder, "expected-lora-f32.gguf"))).status).toBe(200);
    const [first, ...others] = references as [Reference, ...Reference[]];
    expect(await reply("gguf", first.prompt)).toBe(await reply("ada/pirate", first.prompt));
    expect((await unload("gguf")).status).toBe(200);
    const wrong = mkdtempSync(join(tmpdir(), "stoker-wrong-lora-"));
    try {
      copyFileSync(join(folder, "adapter_config.json"), join(wrong, "adapter_config.json"));
      const weights = readFileSync(join(folder, "adapter_model.safetensors"));
      const heads = { q_proj: 9, k_proj: 3 };
      writeFileSync(join(wrong, "adapter_model.safetensors"), withoutPermutation(weights, heads));
      expect((await load("wrong", wrong)).status).toBe(200);
      // Begins as well as the right one, and is no near tie.
      for (const { prompt, with_adapter: said } of [others[1], others[3]] as Reference[]) {
        const { gaps, upTo } = await follow(runtime, { model: "wrong", prompt, reply: said });
        expect(upTo).toBeGreaterThanOrEqual("Ahoy!".length);
        expect(upTo < said.length || Math.max(...gaps) > nearTie, `${prompt}: ${gaps}`).toBe(true);
      }
      expect((await unload("wrong")).status).toBe(200);
    } finally {
      rmSync(wrong, { recursive: true, force: true });
    }
  });

  it("loads while other streams run, with one limit over the model and its adapters", async () => {
    const long = runtime.stream("/v1/completions", { model, prompt: "Once", max_tokens: 100, ignore_eos: true });
    await vi.waitFor(async () => expect((await runtime.get("/health")).body.num_running).toBe(1), { timeout: 20_000 });
    expect((await load("second", folder)).status).toBe(200);
    const short = { max_tokens: 3 };
    const names = ["ada/pirate", "second", model, "ada/pirate", "second"];
    const replies = await Promise.all(names.map((name) => ask(name, references[0]?.prompt ?? "", short)));
    const isPirate = replies.map(({ body }) => body.choices[0].message.content.startsWith("Ahoy"));
    expect(isPirate).toEqual([true, true, false, true, true]);
    expect((await long).chunks.at(-1).choices[0].finish_reason).toBe("length");
    expect((await unload("second")).status).toBe(200);
    const page = String((await runtime.get("/metrics")).body);
    const sizes = [/_batch_size_bucket\{le="4"\} (\d+)/, /_batch_size_count (\d+)/].map((form) => form.exec(page)?.[1]);
    expect(sizes[0]).toBe(sizes[1]);
  });

  it("is listed under its base and asked for by its own name or after the model's", async () => {
    const { data } = (await runtime.get("/v1/models")).body;
    expect(data).toMatchObject([{ id: model }, { id: "ada/pirate", parent: model }]);
    const { body } = await ask(`${model}:ada/pirate`, "Who are you?", { max_tokens: 2 });
    expect(body.model).toBe(`${model}:ada/pirate`);
    expect(body.choices[0].message.content).toMatch(/^Ahoy/);
  });

  it("unloads while the adapter's last stream runs to its end, and then says that it is gone", async () => {
    const last = runtime.stream("/v1/completions", {
      model: "ada/pirate",
      prompt: "Once",
      max_tokens: 60,
      ignore_eos: true,
    });
    await vi.waitFor(async () => expect((await runtime.get("/health")).body.num_running).toBe(1), { timeout: 20_000 });
    expect(await unload("ada/pirate")).toMatchObject({ status: 200, body: /removed successfully/ });
    expect(await ask("ada/pirate", "hi")).toMatchObject({ status: 404, body: { error: { code: "model_not_found" } } });
    expect(await ask(`${model}:ada/pirate`, "hi")).toMatchObject({ status: 404 });
    expect((await last).chunks.at(-1).choices[0].finish_reason).toBe("length");
    expect((await runtime.get("/v1/models")).body.data).toHaveLength(1);
    expect((await load("ada/pirate", folder)).status).toBe(200);
    expect(await reply("ada/pirate", references[0]?.prompt ?? "")).toMatch(/^Ahoy!/);
    expect((await unload("ada/pirate")).status).toBe(200);
  });

  it("refuses what it cannot load with the reason, and goes on serving", async () => {
    expect(await load("x", "/nowhere")).toMatchObject({ status: 400, body: { error: { param: "lora_path" } } });
    expect(await load("x", import.meta.dirname)).toMatchObject({
      status: 400,
      body: { error: { message: /neither/ } },
    });
    expect(await load("x y", folder)).toMatchObject({ status: 422, body: { error: { param: "lora_name" } } });
    expect(await unload("never")).toMatchObject({ status: 404 });
    expect((await ask(model, "hi", { max_tokens: 1 })).status).toBe(200);
  });
});
