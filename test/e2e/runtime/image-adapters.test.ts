// A LoRA folded into a real pipeline, at start and while it paints: what is painted then equals what another program paints with
// the same weights changed.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { apart, blockMeans, imageReference } from "../../fakes/block-means.ts";
import { type AdapterNames, imageAdapter, peftConfig } from "../../fakes/image-adapter.ts";
import { type ServedModel, serveModel } from "../../fakes/served-model.ts";
import { referenceOf, sharedModel } from "../../fakes/shared-models.ts";

const diffusion = sharedModel("digits-diffusion", "a synthetic image LoRA folded into a real pipeline");
const folder = mkdtempSync(join(tmpdir(), "stoker-image-lora-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const written = (name: string, bytes: Buffer) => {
  const path = join(folder, name);
  writeFileSync(path, bytes);
  return path;
};
const ask = (model = "o/m", more: object = {}) => ({
  model,
  prompt: imageReference.prompt,
  num_inference_steps: imageReference.steps,
  guidance_scale: 4,
  seed: 42,
  ...more,
});

async function painted(model: ServedModel, name?: string): Promise<readonly number[]> {
  const { status, body } = await model.post("/v1/images/generations", ask(name));
  expect(status, JSON.stringify(body.error)).toBe(200);
  return blockMeans(body.data[0].b64_json);
}

async function paintedWith(path: string, strength: number): Promise<readonly number[]> {
  const model = await serveModel(diffusion as string, { imageAdapters: [{ path, strength }] });
  try {
    return await painted(model);
  } finally {
    await model.close();
  }
}

describe.runIf(diffusion)("an image LoRA given at start", () => {
  it("paints what its reference painted", async () => {
    const path = written("start.safetensors", imageAdapter("kohya"));
    expect(apart(await paintedWith(path, 1), imageReference.block_means)).toBeLessThan(0.006);
  });

  it("leaves the base unchanged at strength 0, and the base differs from the reference", async () => {
    const [base] = referenceOf(diffusion as string).runs;
    const means = await paintedWith(written("weak.safetensors", imageAdapter("kohya")), 0);
    expect(apart(means, base.image_8x8_block_means)).toBeLessThan(0.004);
    expect(apart(means, imageReference.block_means)).toBeGreaterThan(0.05);
  });

  it("ends the load with a sentence where it does not fit, and so does a model that paints nothing", async () => {
    const path = written("adapter.bin", Buffer.from("pickle"));
    await expect(paintedWith(path, 1)).rejects.toThrow(/image adapter not usable: .+ no \.safetensors file/);
    const classifier = sharedModel("digits-classifier", "that a classifier takes no image LoRA");
    if (classifier === undefined) return;
    const served = serveModel(classifier, { imageAdapters: [{ path, strength: 1 }] });
    await expect(served).rejects.toThrow(/image-classification takes no image adapters/);
  });
});

describe.runIf(diffusion)("an image LoRA loaded while the model serves", () => {
  let model: ServedModel;
  let base: readonly number[];
  beforeAll(async () => {
    const graphCacheDir = join(folder, "graphs");
    model = await serveModel(diffusion as string, { graphCacheDir });
    base = await painted(model);
  });
  afterAll(() => model?.close());

  const load = (lora_name: string, lora_path: string) => model.send("/v1/load_lora_adapter", { lora_name, lora_path });
  const unload = (lora_name: string) => model.send("/v1/unload_lora_adapter", { lora_name });

  it.each<AdapterNames>(["kohya", "diffusers", "peft"])(
    "in the names of %s paints what its reference painted",
    async (names) => {
      const own = join(folder, names);
      mkdirSync(own);
      writeFileSync(join(own, "adapter_model.safetensors"), imageAdapter(names));
      if (names === "peft") writeFileSync(join(own, "adapter_config.json"), JSON.stringify(peftConfig));
      expect(await load(names, own)).toMatchObject({ status: 200, text: expect.stringMatching(/added successfully/) });
      expect(apart(await painted(model, names), imageReference.block_means)).toBeLessThan(0.006);
    },
  );

  it("paints beside its base, which stays as it was, and each picture with its own", async () => {
    const names = ["kohya", "o/m", "peft", "o/m:kohya", "another name of the model"];
    const pictures = await Promise.all(names.map((name) => painted(model, name)));
    const isAdapted = pictures.map((means) => apart(means, imageReference.block_means) < 0.006);
    expect(isAdapted).toEqual([true, false, true, true, false]);
    expect(apart(pictures[1] ?? [], base)).toBeLessThan(0.001);
    const { data } = await (await fetch(`${model.origin}/v1/models`)).json();
    expect(data.slice(1)).toMatchObject(["diffusers", "kohya", "peft"].map((id) => ({ id, parent: "o/m" })));
  });

  it("goes while a picture of it is painted to its end, and then says that it is gone", async () => {
    const last = model.post("/v1/images/generations", ask("kohya", { num_inference_steps: 100 }));
    const waiting = { timeout: 20_000, interval: 5 };
    await vi.waitFor(() => expect(model.state.engine?.load().running).toBe(1), waiting);
    expect(await unload("kohya")).toMatchObject({ status: 200, text: expect.stringMatching(/removed successfully/) });
    expect((await last).status).toBe(200);
    expect(await model.post("/v1/images/generations", ask("kohya"))).toMatchObject({
      status: 404,
      body: { error: { code: "model_not_found" } },
    });
    expect((await unload("kohya")).status).toBe(404);
    expect(apart(await painted(model, "peft"), imageReference.block_means)).toBeLessThan(0.006);
  });

  it.each([
    ["another base's layer", "mid_block", "other_block", /no such layer: it is for another base/],
    ["half of a pair", /mid_block.+lora_up/, undefined, /only one half of lora_unet_mid_block/],
    ["another kind of adapter", /to_q\.lora_down/, "to_q.hada_w1_a", /no part of a plain LoRA/],
  ])("is refused with %s in one sentence, and the model continues", async (name, pattern, instead, why) => {
    const bytes = imageAdapter("kohya", (tensors) =>
      tensors.flatMap((tensor) => {
        if (instead === undefined) return tensor.name.match(pattern) ? [] : [tensor];
        return [{ ...tensor, name: tensor.name.replace(pattern, instead) }];
      }),
    );
    const refused = await load("bad", written(`${name}.safetensors`, bytes));
    expect(refused.status).toBe(400);
    expect(refused.text).toMatch(why);
    expect((await load("bad", "/nowhere")).status).toBe(400);
    expect((await painted(model)).length).toBe(64);
  });
});

it.runIf(diffusion)("refuses an image LoRA that exceeds the memory before it is read", async () => {
  const model = await serveModel(diffusion as string, { memoryBytes: 1024 });
  try {
    const answer = await model.send("/v1/load_lora_adapter", { lora_name: "a", lora_path: "/nowhere" });
    expect(answer).toMatchObject({ status: 503, text: expect.stringMatching(/adapter_no_room/) });
  } finally {
    await model.close();
  }
});
