// A LoRA of a picture model as its safetensors file holds it, in kohya's names, diffusers' or PEFT's: what is added to which
// layer. Pure.
import { AdapterRefusal } from "../../../llama/lora/adapter-refusal.ts";
import { storedFloats } from "../../../llama/lora/float-bytes.ts";
import type { FloatTensor } from "../../../llama/lora/safetensors.ts";
import type { Json } from "../../../onnx/model-folder.ts";
import { floatsOf } from "../float-tensor.ts";

export type AdaptedPart = "unet" | "text_encoder";

/** up · down · scale, a matrix of outputs by inputs. */
export interface LayerDelta {
  readonly part: AdaptedPart;
  /** The layer's path with `_` for every `.`, as kohya writes it: others' names come to the same. */
  readonly layer: string;
  readonly rank: number;
  readonly outputs: number;
  readonly inputs: number;
  readonly down: Float32Array;
  readonly up: Float32Array;
  readonly scale: number;
}

const prefixes: readonly (readonly [prefix: string, part: AdaptedPart])[] = [
  ["lora_unet_", "unet"],
  ["lora_te_", "text_encoder"],
  ["lora_te1_", "text_encoder"],
  ["unet.", "unet"],
  ["text_encoder.", "text_encoder"],
];

interface Pair {
  down?: FloatTensor;
  up?: FloatTensor;
  alpha?: number;
}

/** `config`: adapter_config.json beside the file, `{}` without one. Throws AdapterRefusal. */
export function readAdapter(tensors: readonly FloatTensor[], config: Json): readonly LayerDelta[] {
  checkConfig(config);
  const pairs = new Map<string, Pair>();
  for (const tensor of tensors) {
    const { layer, role } = placeOf(tensor.name);
    const pair = pairs.get(layer) ?? {};
    if (role === "alpha") pair.alpha = valuesOf(tensor)[0] ?? 0;
    else pair[role] = tensor;
    pairs.set(layer, pair);
  }
  if (pairs.size === 0) throw new AdapterRefusal("the adapter holds no tensors");
  return [...pairs].map(([layer, pair]) => deltaOf(layer, pair, config));
}

function deltaOf(name: string, { down, up, alpha }: Pair, config: Json): LayerDelta {
  if (!down || !up) throw new AdapterRefusal(`the adapter has only one half of ${name}`);
  const [rank = 0] = down.shape;
  const [outputs = 0, rankOfUp] = up.shape;
  const size = ({ shape }: FloatTensor) => shape.reduce((a, b) => a * b, 1);
  if (rank === 0 || rankOfUp !== rank || size(up) !== outputs * rank)
    throw new AdapterRefusal(
      `the halves of ${name} do not fit together: ${down.shape.join("x")} and ${up.shape.join("x")}`,
    );
  const found = prefixes.find(([prefix]) => name.startsWith(prefix));
  const [prefix, part] = found ?? ["", "unet"];
  return {
    part,
    layer: name.slice(prefix.length).replaceAll(".", "_"),
    rank,
    outputs,
    inputs: size(down) / rank,
    down: valuesOf(down),
    up: valuesOf(up),
    scale: scaleOf(alpha, rank, config),
  };
}

/** Without any word about it the two halves are meant as they are. */
function scaleOf(alpha: number | undefined, rank: number, config: Json): number {
  const given = alpha ?? (typeof config["lora_alpha"] === "number" ? config["lora_alpha"] : rank);
  return given / (config["use_rslora"] === true ? Math.sqrt(rank) : rank);
}

function checkConfig(config: Json): void {
  const { peft_type: type, use_dora: isDora, rank_pattern: ranks, alpha_pattern: alphas } = config;
  if (type !== undefined && type !== "LORA")
    throw new AdapterRefusal(`adapter_config.json names the kind ${String(type)}, and LORA is what is folded in`);
  if (isDora === true) throw new AdapterRefusal("adapter_config.json requires DoRA, which is not supported");
  for (const pattern of [ranks, alphas])
    if (typeof pattern === "object" && pattern !== null && Object.keys(pattern).length > 0)
      throw new AdapterRefusal(
        "adapter_config.json gives layers a rank or alpha of their own, which is not known here",
      );
}

function placeOf(name: string): { readonly layer: string; readonly role: "down" | "up" | "alpha" } {
  const bare = name.replace(/^base_model\.model\./, "");
  // diffusers before 0.18: the halves hang on the attention's processor.
  const old = /^(.+)\.processor\.(to_\w+)_lora\.(down|up)\.weight$/.exec(bare);
  if (old) {
    const [, attention, layer, role] = old;
    return { layer: `${attention}.${layer === "to_out" ? "to_out.0" : layer}`, role: role as "down" | "up" };
  }
  const found = /^(.+?)\.(?:lora_(down|up|A|B)(?:\.default)?\.weight|lora\.(down|up)\.weight|(alpha))$/.exec(bare);
  if (!found)
    throw new AdapterRefusal(
      `the adapter holds ${name}, which is no part of a plain LoRA (lora_down and lora_up, lora_A and lora_B, alpha)`,
    );
  const [, layer = "", named, older, alpha] = found;
  if (alpha) return { layer, role: "alpha" };
  const isDown = named === "down" || named === "A" || older === "down";
  return { layer, role: isDown ? "down" : "up" };
}

function valuesOf(tensor: FloatTensor): Float32Array {
  const { type, bytes } = storedFloats(tensor);
  // A copy: tensors of a file begin anywhere.
  const { buffer } = new Uint8Array(bytes);
  if (type === "F32") return new Float32Array(buffer);
  return floatsOf({ type: "float16", data: new Uint16Array(buffer), dims: [] });
}
