// Checks an image adapter's file before an engine reads it: a whole safetensors file of plain LoRA halves, of a
// bounded rank. Which layers it changes is the engine's to judge. Format: https://github.com/huggingface/safetensors#format
import { open } from "node:fs/promises";
import { objectIn, shown } from "./check-adapter.ts";

/** Adapters of the largest models have some thousand tensors. Read on the thread that everybody's streams pass. */
const maxHeaderBytes = 2 * 1024 * 1024;
const floats = new Set(["F32", "F16", "BF16"]);
/** The half whose first dimension is the rank, as kohya's tools, diffusers and PEFT call it. */
const downHalf = /(\.lora_down|\.lora_A(\.default)?|\.lora\.down|_lora\.down)\.weight$/;

/** Other tensors of plain LoRAs: the other half, and the scale. */
const otherPart = /(\.lora_up|\.lora_B(\.default)?|\.lora\.up|_lora\.up)\.weight$|\.alpha$/;

interface SafetensorsHeader {
  readonly tensors: Readonly<Record<string, unknown>>;
  /** Size of the whole file. */
  readonly bytes: number;
  readonly dataFrom: number;
}

/** Undefined: nothing speaks against it. `config`: the text of its adapter_config.json, where it has one. */
export async function whyImageAdapterRefused(
  path: string,
  config: string | undefined,
  maxRank: number,
): Promise<string | undefined> {
  const header = await readHeader(path);
  if (typeof header === "string") return header;
  return whyConfigRefused(config) ?? whyTensorsRefused(header, maxRank);
}

async function readHeader(path: string): Promise<SafetensorsHeader | string> {
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    const head = Buffer.alloc(8);
    const { bytesRead } = await file.read(head, 0, 8, 0);
    const length = bytesRead === 8 ? Number(head.readBigUInt64LE()) : Number.POSITIVE_INFINITY;
    if (length > size - 8) return "it is no safetensors file";
    if (length > maxHeaderBytes)
      return `its safetensors header has ${length} bytes and the most is ${maxHeaderBytes}; save it without the notes of its training`;
    const text = Buffer.alloc(length);
    await file.read(text, 0, length, 8);
    const { __metadata__: _, ...tensors } = objectIn(text.toString("utf8")) ?? { "": undefined };
    if ("" in tensors) return "it is no safetensors file";
    return { tensors, bytes: size, dataFrom: 8 + length };
  } finally {
    await file.close();
  }
}

function whyConfigRefused(config: string | undefined): string | undefined {
  if (config === undefined) return undefined;
  const facts = objectIn(config);
  if (!facts) return "its adapter_config.json is not a JSON object";
  if (facts["peft_type"] !== "LORA") return `its type is ${shown(facts["peft_type"])} and not LORA`;
  return facts["use_dora"] === true ? "it is a DoRA, which the engines here do not take" : undefined;
}

function whyTensorsRefused({ tensors, bytes, dataFrom }: SafetensorsHeader, maxRank: number): string | undefined {
  let halves = 0;
  const others: string[] = [];
  for (const [name, value] of Object.entries(tensors)) {
    const { dtype, shape, data_offsets: offsets } = (value ?? {}) as Record<string, unknown>;
    const [, to] = Array.isArray(offsets) ? offsets : [];
    if (typeof dtype !== "string" || !Array.isArray(shape) || typeof to !== "number")
      return "its safetensors header is damaged";
    if (dataFrom + to > bytes) return "it ends before its last tensor; fetch it whole";
    if (!floats.has(dtype)) return `its tensors are of type ${dtype.slice(0, 20)}; F32, F16 and BF16 are read`;
    if (!downHalf.test(name)) {
      if (!otherPart.test(name)) others.push(name);
      continue;
    }
    halves += 1;
    const [rank] = shape;
    if (typeof rank !== "number" || !Number.isInteger(rank) || rank < 1 || rank > maxRank)
      return `its rank ${shown(rank)} is not a whole number from 1 to ${maxRank}, which is what the engine takes`;
  }
  if (halves === 0) return "it holds no LoRA in the names of kohya's tools, diffusers or PEFT";
  return others.length === 0 ? undefined : `it holds ${shown(others[0])}, which is no part of a plain LoRA`;
}
