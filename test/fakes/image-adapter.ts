// A LoRA of the small digits pipeline, of known numbers: those of test/fixtures/onnx/image_lora.py, in each tool's names.
const rank = 4;
const alpha = 2;
const size = 0.2;
/** Part, layer, shape of the down half without its rank, outputs. */
const layers: readonly (readonly ["unet" | "text_encoder", string, readonly number[], number])[] = [
  ["unet", "down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q", [80], 80],
  ["unet", "mid_block.attentions.0.transformer_blocks.0.attn2.to_k", [64], 80],
  ["unet", "up_blocks.0.attentions.1.transformer_blocks.0.ff.net.0.proj", [80], 640],
  ["unet", "mid_block.attentions.0.proj_in", [80, 1, 1], 80],
  ["unet", "up_blocks.0.resnets.0.conv1", [160, 3, 3], 80],
  ["unet", "time_embedding.linear_1", [40], 160],
  ["text_encoder", "text_model.encoder.layers.0.self_attn.q_proj", [64], 64],
];

interface Tensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

export type AdapterNames = "kohya" | "diffusers" | "peft";

/** Beside a file in PEFT's names, which has the alpha nowhere else. */
export const peftConfig = {
  peft_type: "LORA",
  r: rank,
  lora_alpha: alpha,
  base_model_name_or_path: "stoker/digits-diffusion",
};

/** The bytes of a safetensors file. */
export function imageAdapter(names: AdapterNames, change: (tensors: Tensor[]) => Tensor[] = (all) => all): Buffer {
  return safetensors(change(layers.flatMap((layer, at) => tensorsOf(layer, at, names))));
}

function tensorsOf([part, layer, inputs, outputs]: (typeof layers)[number], at: number, names: AdapterNames): Tensor[] {
  const rest = inputs.slice(1);
  const kohya = `${part === "unet" ? "lora_unet" : "lora_te"}_${layer.replaceAll(".", "_")}`;
  const plain = `${names === "peft" ? "base_model.model." : ""}${part}.${layer}`;
  const [prefix, down, up] = names === "kohya" ? [kohya, "lora_down", "lora_up"] : [plain, "lora_A", "lora_B"];
  const halves = [
    sines(`${prefix}.${down}.weight`, [rank, ...inputs], at),
    sines(`${prefix}.${up}.weight`, [outputs, rank, ...rest.map(() => 1)], at + 0.5),
  ];
  return names === "peft"
    ? halves
    : [...halves, { name: `${prefix}.alpha`, shape: [], values: Float32Array.of(alpha) }];
}

function sines(name: string, shape: readonly number[], phase: number): Tensor {
  const length = shape.reduce((a, b) => a * b, 1);
  return { name, shape, values: Float32Array.from({ length }, (_, i) => Math.sin(0.37 * i + phase) * size) };
}

function safetensors(tensors: readonly Tensor[]): Buffer {
  let at = 0;
  const header: Record<string, unknown> = {};
  for (const { name, shape, values } of tensors) {
    header[name] = { dtype: "F32", shape, data_offsets: [at, at + values.byteLength] };
    at += values.byteLength;
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, ...tensors.map(({ values }) => Buffer.from(values.buffer))]);
}
