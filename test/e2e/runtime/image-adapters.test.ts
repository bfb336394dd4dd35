// A LoRA folded into a real pipeline: what is painted then equals what another program paints with the same weights changed.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import sharp from "sharp";
import { afterAll, describe, expect, it } from "vitest";
import { type AdapterNames, imageAdapter } from "../../fakes/image-adapter.ts";
import { serveModel } from "../../fakes/served-model.ts";
import { referenceOf, sharedModel } from "../../fakes/shared-models.ts";

const diffusion = sharedModel("digits-diffusion", "a synthetic image LoRA folded into a real pipeline");
const reference = JSON.parse(readFileSync(join(import.meta.dirname, "../../fixtures/onnx/image-lora.json"), "utf8"));
const folder = mkdtempSync(join(tmpdir(), "stoker-image-lora-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const written = (name: string, bytes: Buffer) => {
  const path = join(folder, name);
  writeFileSync(path, bytes);
  return path;
};

/** The picture's 8 x 8 block means, 0 to 1. */
async function paintedWith(path: string, strength: number): Promise<number[]> {
  const model = await serveModel(diffusion as string, { imageAdapters: [{ path, strength }] });
  try {
    const ask = { prompt: reference.prompt, num_inference_steps: reference.steps, guidance_scale: 4, seed: 42 };
    const { body } = await model.post("/v1/images/generations", ask);
    const picture = Buffer.from(body.data[0].b64_json, "base64");
    const found = await sharp(picture).removeAlpha().raw().toBuffer();
    const means = Array<number>(64).fill(0);
    for (const [at, value] of found.entries()) {
      const [x, y] = [Math.floor(at / 3) % 64, Math.floor(at / 3 / 64)];
      const block = Math.floor(y / 8) * 8 + Math.floor(x / 8);
      means[block] = (means[block] as number) + value / 255 / 192;
    }
    return means;
  } finally {
    await model.close();
  }
}

const apart = (a: readonly number[], b: readonly number[]) =>
  Math.max(...a.map((value, i) => Math.abs(value - (b[i] as number))));

describe.runIf(diffusion)("an image LoRA", () => {
  it.each<AdapterNames>(["kohya", "diffusers"])("in %s' names paints what its reference painted", async (names) => {
    const path = written(`${names}.safetensors`, imageAdapter(names));
    expect(apart(await paintedWith(path, 1), reference.block_means)).toBeLessThan(0.006);
  });

  it("of no strength leaves the base as it was, and the base is not the reference", async () => {
    const [base] = referenceOf(diffusion as string).runs;
    const means = await paintedWith(written("weak.safetensors", imageAdapter("kohya")), 0);
    expect(apart(means, base.image_8x8_block_means)).toBeLessThan(0.004);
    expect(apart(means, reference.block_means)).toBeGreaterThan(0.05);
  });

  it.each([
    ["another base's layer", "mid_block", "other_block", /no such layer: it is for another base/],
    ["half of a pair", /mid_block.+lora_up/, undefined, /only one half of lora_unet_mid_block/],
    ["another kind of adapter", /to_q\.lora_down/, "to_q.hada_w1_a", /no part of a plain LoRA/],
  ])("with %s ends the load with a sentence", async (name, pattern, instead, why) => {
    const bytes = imageAdapter("kohya", (tensors) =>
      tensors.flatMap((tensor) => {
        if (instead === undefined) return tensor.name.match(pattern) ? [] : [tensor];
        return [{ ...tensor, name: tensor.name.replace(pattern, instead) }];
      }),
    );
    await expect(paintedWith(written(`${name}.safetensors`, bytes), 1)).rejects.toThrow(why);
  });

  it("is refused by its form before anything of it is read, and by a model that paints nothing", async () => {
    const path = written("adapter.bin", Buffer.from("pickle"));
    await expect(paintedWith(path, 1)).rejects.toThrow(/no \.safetensors file/);
    const classifier = sharedModel("digits-classifier", "that a classifier takes no image LoRA");
    if (classifier === undefined) return;
    const served = serveModel(classifier, { imageAdapters: [{ path, strength: 1 }] });
    await expect(served).rejects.toThrow(/image-classification takes no image adapters/);
  });
});
