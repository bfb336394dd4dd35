import { describe, expect, it } from "vitest";
import { readConfig } from "../../../../runtime/config.ts";
import type { FloatTensor } from "../../../../runtime/llama/lora/safetensors.ts";
import { readAdapter } from "../../../../runtime/tasks/images/adapter/read-adapter.ts";

const tensor = (name: string, shape: readonly number[], values: readonly number[]): FloatTensor => ({
  name,
  type: "F32",
  shape,
  bytes: new Uint8Array(Float32Array.from(values).buffer),
});
const pair = (down: string, up: string) => [tensor(down, [1, 2], [1, 2]), tensor(up, [3, 1], [1, 2, 3])];
const layer = "mid_block_attentions_0_transformer_blocks_0_attn1_to_q";
const dotted = "mid_block.attentions.0.transformer_blocks.0.attn1.to_q";

describe("an image adapter's names", () => {
  it.each([
    ["kohya", `lora_unet_${layer}.lora_down.weight`, `lora_unet_${layer}.lora_up.weight`],
    ["diffusers", `unet.${dotted}.lora_A.weight`, `unet.${dotted}.lora_B.weight`],
    ["diffusers of a named adapter", `unet.${dotted}.lora_A.default.weight`, `unet.${dotted}.lora_B.default.weight`],
    ["PEFT", `base_model.model.${dotted}.lora_A.weight`, `base_model.model.${dotted}.lora_B.weight`],
    ["old diffusers", `unet.${dotted}.lora.down.weight`, `unet.${dotted}.lora.up.weight`],
    [
      "older diffusers",
      `${dotted.replace(".to_q", "")}.processor.to_q_lora.down.weight`,
      `${dotted.replace(".to_q", "")}.processor.to_q_lora.up.weight`,
    ],
  ])("map to one layer in the names of %s", (_, down, up) => {
    const [delta, ...more] = readAdapter(pair(down, up), {});
    expect(more).toEqual([]);
    expect(delta).toMatchObject({ part: "unet", layer, rank: 1, outputs: 3, inputs: 2, scale: 1 });
    expect([...(delta?.up ?? [])]).toEqual([1, 2, 3]);
  });

  it("are distinguished for the text encoder", () => {
    const name = "lora_te_text_model_encoder_layers_0_self_attn_q_proj";
    const [delta] = readAdapter(pair(`${name}.lora_down.weight`, `${name}.lora_up.weight`), {});
    expect(delta).toMatchObject({ part: "text_encoder", layer: "text_model_encoder_layers_0_self_attn_q_proj" });
  });
});

describe("an image adapter's scale", () => {
  const halves = [
    tensor("unet.a.lora_A.weight", [4, 1], [1, 1, 1, 1]),
    tensor("unet.a.lora_B.weight", [1, 4], [1, 1, 1, 1]),
  ];
  it.each([
    ["its own alpha by its rank", [tensor("unet.a.alpha", [], [2])], { lora_alpha: 9 }, 0.5],
    ["the configuration's", [], { lora_alpha: 8, peft_type: "LORA" }, 2],
    ["by the root of the rank where rank-stabilised", [], { lora_alpha: 8, use_rslora: true }, 4],
    ["one without any word about it", [], {}, 1],
  ])("is %s", (_, more, config, scale) => {
    expect(readAdapter([...halves, ...more], config)[0]?.scale).toBe(scale);
  });

  it.each([
    [{ use_dora: true }, /DoRA/],
    [{ peft_type: "LOHA" }, /LOHA/],
    [{ rank_pattern: { a: 8 } }, /rank or alpha of their own/],
  ])("is not guessed for %j", (config, why) => {
    expect(() => readAdapter(halves, config)).toThrow(why);
  });
});

it("reads image adapters as paths, each with its strength", () => {
  const env = { STOKER_INSTANCE_ID: "i", STOKER_MODEL_PATH: "/m", STOKER_SERVED_MODEL_NAME: "m" };
  const read = (list: string) => readConfig({ ...env, STOKER_IMAGE_ADAPTERS: list }, 2).imageAdapters;
  expect(read("/a.safetensors:/b=c=0.5")).toEqual([
    { path: "/a.safetensors", strength: 1 },
    { path: "/b=c", strength: 0.5 },
  ]);
  expect(() => read("/a=99")).toThrow("from -10 to 10");
});
