// Checks that an adapter's description fits the engine: PEFT LoRA for this base, of a bounded rank. Pure.
import { open } from "node:fs/promises";

/** `base`: the repository whose weights the instance runs. Undefined: nothing speaks against it. */
export function whyAdapterRefused(config: string, base: string, maxRank: number): string | undefined {
  const facts = objectIn(config);
  if (!facts) return "its adapter_config.json is not a JSON object";
  if (facts["peft_type"] !== "LORA") return `its type is ${shown(facts["peft_type"])} and not LORA`;
  const ranks = [facts["r"], ...Object.values(objectOf(facts["rank_pattern"]))];
  for (const rank of ranks)
    if (typeof rank !== "number" || !Number.isInteger(rank) || rank < 1 || rank > maxRank)
      return `its rank ${shown(rank)} is not a whole number from 1 to ${maxRank}, which is what the engine takes`;
  if (facts["use_dora"] === true) return "it is a DoRA, which the engines here do not take";
  const ofBase = facts["base_model_name_or_path"];
  if (typeof ofBase === "string" && isRepo(ofBase) && isRepo(base) && !isSameModel(ofBase, base))
    return `it was made for ${ofBase.slice(0, 200)}, and the model it was put on runs ${base}`;
  return undefined;
}

/** The base may be a local path of the machine it was trained on: then the engine's check of the shapes decides. */
const isRepo = (text: string) => /^[A-Za-z0-9][\w.-]*\/[\w.-]+$/.test(text);

/** The same model in another repository, quantised, converted or under another owner, still has its name. */
function isSameModel(one: string, other: string): boolean {
  const [a, b] = [nameOf(one), nameOf(other)];
  return a.includes(b) || b.includes(a);
}

const nameOf = (repo: string) =>
  (repo.split("/").at(-1) ?? repo)
    .toLowerCase()
    .replace(/([-_.](gguf|awq|gptq|fp8|int4|int8|bf16|bnb|4bit|8bit|hf))+$/, "");

function objectIn(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

const objectOf = (value: unknown) => (typeof value === "object" && value !== null ? value : {});
/** A value from a stranger's file, short enough for a sentence. Lists and objects are not printed: nested ones exhaust the stack. */
const shown = (value: unknown) => {
  if (typeof value === "object" && value !== null) return Array.isArray(value) ? "a list" : "an object";
  return JSON.stringify(value ?? null).slice(0, 40);
};

/** Adapters of the largest models have some thousand tensors. Read on the thread that serves all streams. */
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

/** Checks a safetensors file (https://github.com/huggingface/safetensors#format) before an engine reads it. `config`: the text of its adapter_config.json, where it has one. */
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
