// Extra arguments of engines: an allowlist with typed values, never a denylist. Engines take `_` for `-`, unique prefixes
// and dotted keys, so only the exact name, the exact form and a value of the right type reach argv. The control plane checks
// arguments, and the agent checks them again, so that a compromised control plane cannot add one.

import { type EngineVersion, isWithin, type Lifetime, showVersion } from "./engine-version.ts";
import { reasoningParsers, toolParsers } from "./vllm-parsers.ts";

const form = /^--([a-z0-9-]+)(?:=(.{0,512}))?$/;
const maxArgs = 32;
const ggufForm = /^([A-Za-z0-9][\w.-]{0,95}\/[\w.-]{1,96})(?::([\w][\w./+-]{0,200}\.gguf))?$/;

/** Disables adapters: vLLM does not start some architectures with adapters enabled. */
export const noAdapters = "--no-enable-lora";

/** Checks requested arguments. Returns undefined if all of them take effect, otherwise a sentence on the first that does not. */
export function whyArgsRefused(reader: string, args: readonly string[]): string | undefined {
  return firstRefused(reader, args, heeded);
}

/** Checks stored arguments: an agent accepts those of older rows, and nothing else. */
export function whyStoredArgsRefused(engine: string, args: readonly string[]): string | undefined {
  return firstRefused(engine, args, stored);
}

/** Returns a sentence on the first stored argument that this version of the engine would end at; undefined: none, or the version is unknown. */
export function whyVersionRefuses(
  engine: string,
  version: EngineVersion | undefined,
  args: readonly string[],
): string | undefined {
  if (version === undefined) return undefined;
  const rules = (Object.hasOwn(stored, engine) && stored[engine as ArgReader]) || {};
  for (const arg of args) {
    const [, name = "", value = ""] = form.exec(arg) ?? [];
    const life = lifetimesOf(Object.hasOwn(rules, name) ? rules[name] : undefined)[value];
    if (life && !isWithin(version, life))
      return `${quote(arg)} does not exist in ${engine} ${showVersion(version)}${span(life)}; use another value.`;
  }
  return undefined;
}

const span = ({ since, until }: Lifetime): string =>
  since !== undefined ? ` (it came with ${since})` : until !== undefined ? ` (it was removed in ${until})` : "";

function firstRefused(
  reader: string,
  args: readonly string[],
  tables: Readonly<Record<string, ArgRules>>,
): string | undefined {
  const rules = (Object.hasOwn(tables, reader) && tables[reader]) || {};
  if (args.length > maxArgs) return `At most ${maxArgs} extra arguments are taken.`;
  const seen = new Set<string>();
  for (const arg of args) {
    const parts = form.exec(arg);
    if (!parts) return `${quote(arg)} is not of the form --name or --name=value.`;
    const [, name, value] = parts as unknown as [string, string, string | undefined];
    const rule = Object.hasOwn(rules, name) ? rules[name] : undefined;
    const why = rule ? refuse(rule, value) : "";
    if (why !== undefined) return sentence(reader, rules, name, arg, why);
    if (seen.has(name)) return `${quote(`--${name}`)} is given twice.`;
    seen.add(name);
  }
  return undefined;
}

/** Names the argument, the engine and what would work. `why`: reason for a refused value; empty for an unknown name. */
function sentence(reader: string, rules: ArgRules, name: string, arg: string, why: string): string {
  const instead = reader === "stoker" && Object.hasOwn(unheeded, name) ? unheeded[name] : undefined;
  if (instead !== undefined) return `${quote(arg)} has no effect on the engine stoker: ${instead}. Leave it out.`;
  const engine = reader === "stoker-onnx" ? "engine stoker with ONNX weights" : `engine ${reader}`;
  if (why !== "") return `${quote(arg)}: ${why} on the ${engine}.`;
  const known = Object.keys(rules).map((key) => `--${key}`);
  const list = known.length > 0 ? `It takes ${known.join(", ")}.` : "It takes none; leave extra_args out.";
  return `${quote(`--${name}`)} is no argument that the ${engine} takes. ${list}`;
}

function refuse(rule: ArgRule, value: string | undefined): string | undefined {
  if (rule.kind === "flag") return value === undefined ? undefined : "it takes no value";
  if (value === undefined) return "it needs a value, as --name=value";
  if (rule.kind === "one-of")
    return rule.values.includes(value) ? undefined : `its value is one of ${rule.values.join(", ")}`;
  if (rule.kind === "gguf")
    return ggufForm.test(value) && !value.includes("..")
      ? undefined
      : "its value is owner/name or owner/name:file.gguf";
  if (rule.kind === "json") return refuseJson(rule.keys, value);
  const isNumber = rule.kind === "integer" ? /^\d{1,9}$/.test(value) : /^\d{1,4}(\.\d{1,6})?$/.test(value);
  const isInside = isNumber && Number(value) >= rule.min && Number(value) <= rule.max;
  return isInside
    ? undefined
    : `its value is ${rule.kind === "integer" ? "an integer" : "a number"} from ${rule.min} to ${rule.max}`;
}

function refuseJson(keys: readonly string[], value: string): string | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(value);
  } catch {
    return "its value is not JSON";
  }
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) return "its value is a JSON object";
  const unknown = Object.keys(parsed).find((key) => !keys.includes(key));
  return unknown === undefined ? undefined : `${quote(unknown)} is not one of ${keys.join(", ")}`;
}

const quote = (text: string) => JSON.stringify(text.slice(0, 80));

/** Model named by `--draft-model`. */
export function draftModelOf(
  args: readonly string[],
): { readonly repo: string; readonly file: string | undefined } | undefined {
  const given = args.find((arg) => arg.startsWith("--draft-model="))?.slice("--draft-model=".length);
  const [, repo, file] = ggufForm.exec(given ?? "") ?? [];
  return repo === undefined ? undefined : { repo, file };
}

export type ArgRule =
  | { readonly kind: "integer"; readonly min: number; readonly max: number }
  | { readonly kind: "number"; readonly min: number; readonly max: number }
  /** `lifetimes`: of values that only some versions of the engine know. */
  | { readonly kind: "one-of"; readonly values: readonly string[]; readonly lifetimes?: Lifetimes }
  | { readonly kind: "flag" }
  /** A repository of GGUF weights, `owner/name` or `owner/name:file.gguf`. */
  | { readonly kind: "gguf" }
  | { readonly kind: "json"; readonly keys: readonly string[] };

type Lifetimes = Readonly<Record<string, Lifetime>>;

export type ArgRules = Readonly<Record<string, ArgRule>>;

/** Reader of the arguments: an engine, by what it runs. */
export type ArgReader = "stoker" | "stoker-onnx" | "vllm" | "sglang" | "llamacpp";

const flag = { kind: "flag" } as const;
const oneOf = (...values: string[]) => ({ kind: "one-of", values }) as const;
const oneOfEach = (lifetimes: Lifetimes) => ({ kind: "one-of", values: Object.keys(lifetimes), lifetimes }) as const;
const integer = (min: number, max: number) => ({ kind: "integer", min, max }) as const;

/** Maximum tokens of a step of llama.cpp's server. */
export const maxLlamaBatch = 65_536;
const contextLength = integer(128, 10_000_000);
const dtype = oneOf("auto", "half", "float16", "bfloat16", "float", "float32");

/** `vllm serve --help=all` of 0.10.2 to 0.32.0. */
const vllm: ArgRules = {
  "max-model-len": contextLength,
  dtype,
  quantization: oneOfEach({
    awq: {},
    awq_marlin: {},
    gptq: {},
    gptq_marlin: {},
    fp8: {},
    bitsandbytes: { until: "0.28" },
  }),
  "kv-cache-dtype": oneOf("auto", "fp8", "fp8_e4m3", "fp8_e5m2"),
  "enable-chunked-prefill": flag,
  "enable-prefix-caching": flag,
  "no-enable-prefix-caching": flag,
  "max-num-batched-tokens": integer(64, 1_048_576),
  "scheduling-policy": oneOf("fcfs", "priority"),
  "gpu-memory-utilization": { kind: "number", min: 0.1, max: 0.97 },
  "no-enable-lora": flag,
  "limit-mm-per-prompt": { kind: "json", keys: ["image"] },
  "enable-auto-tool-choice": flag,
  "tool-call-parser": oneOfEach(toolParsers),
  "reasoning-parser": oneOfEach(reasoningParsers),
  "rope-scaling": {
    kind: "json",
    keys: [
      "type",
      "rope_type",
      "factor",
      "original_max_position_embeddings",
      "attention_factor",
      "beta_fast",
      "beta_slow",
      "short_factor",
      "long_factor",
      "low_freq_factor",
      "high_freq_factor",
    ],
  },
};

/** https://docs.sglang.io: server arguments. */
const sglang: ArgRules = {
  "context-length": contextLength,
  dtype,
  quantization: oneOf("awq", "awq_marlin", "gptq", "gptq_marlin", "fp8", "w8a8_int8", "w8a8_fp8"),
  "kv-cache-dtype": oneOf("auto", "fp8_e4m3", "fp8_e5m2", "bf16"),
  "mem-fraction-static": { kind: "number", min: 0.1, max: 0.97 },
  "chunked-prefill-size": integer(64, 1_048_576),
  "max-prefill-tokens": integer(64, 1_048_576),
  "schedule-policy": oneOf("lpm", "random", "fcfs", "dfs-weight"),
  "disable-radix-cache": flag,
  "disable-cuda-graph": flag,
  "tool-call-parser": oneOf("qwen25", "mistral", "llama3", "deepseekv3", "pythonic", "kimi_k2", "qwen3_coder", "glm45"),
  "reasoning-parser": oneOf("deepseek-r1", "qwen3", "glm45", "kimi", "gpt-oss"),
};

const cacheType = oneOf("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl");

/** `llama-server --help`, builds 10434 to 11434. `max-model-len` is the context of one request: the plan writes `--ctx-size`. */
const llamacpp: ArgRules = {
  "max-model-len": contextLength,
  "flash-attn": oneOf("auto", "on", "off"),
  "cache-type-k": cacheType,
  "cache-type-v": cacheType,
  "no-cache-prompt": flag,
  "n-gpu-layers": integer(0, 1_000),
  "split-mode": oneOf("none", "layer", "row"),
  "cpu-moe": flag,
  "n-cpu-moe": integer(0, 1_000),
  "batch-size": integer(32, maxLlamaBatch),
  "ubatch-size": integer(32, maxLlamaBatch),
  "swa-full": flag,
  "ctx-checkpoints": integer(0, 64),
  "rope-scaling": oneOf("none", "linear", "yarn"),
  "rope-scale": { kind: "number", min: 1, max: 1_000 },
  "yarn-orig-ctx": contextLength,
  "reasoning-format": oneOf("auto", "none", "deepseek", "deepseek-legacy"),
};

/** `runtime/engine-options.ts`, and `max-model-len`, which reaches it as its context length. */
const stoker: ArgRules = {
  "max-model-len": contextLength,
  "draft-model": { kind: "gguf" },
  "flash-attn": oneOf("auto", "on", "off"),
  "kv-cache-dtype": oneOf("auto", "f16", "q8_0", "q4_0"),
  "prompt-cache-mib": integer(0, 65_536),
  speculative: oneOf("off", "prompt-lookup"),
  "tool-call-parser": oneOf(
    "auto",
    "hermes",
    "llama3",
    "llama3_json",
    "mistral",
    "deepseek",
    "deepseek_v3",
    "granite",
    "gpt-oss",
  ),
  "reasoning-parser": oneOf("auto", "off", "think", "deepseek_r1", "qwen3", "mistral", "granite", "gpt-oss"),
  "no-enable-lora": flag,
  // The runtime always does this.
  "enable-auto-tool-choice": flag,
  "enable-chunked-prefill": flag,
  "enable-prefix-caching": flag,
  dtype: oneOf("auto"),
};

/** Our runtime over ONNX graphs: their lengths and types are fixed in their files. */
const stokerOnnx: ArgRules = { "no-enable-lora": flag };

/** Accepted arguments by reader. */
export const heeded: Readonly<Record<ArgReader, ArgRules>> = {
  stoker,
  "stoker-onnx": stokerOnnx,
  vllm,
  sglang,
  llamacpp,
};

/**
 * vLLM's arguments without an equivalent in our runtime, and what to do instead. They have no effect. Earlier versions accepted
 * them, so deployments that have them continue.
 */
export const unheeded: Readonly<Record<string, string>> = {
  dtype: "weights are computed in the type of their file; name a file of the type you want in hf.repo",
  quantization: "weights are quantised in their file; choose a GGUF file of the quantisation you want",
  "gpu-memory-utilization":
    "it takes what weights and contexts need; --max-model-len and max_batch_size lower that, --kv-cache-dtype=q8_0 halves the contexts",
  "max-num-batched-tokens": "it finds the length of a prompt's steps by itself",
  "no-enable-prefix-caching": "beginnings of prompts are kept always; --prompt-cache-mib=0 keeps none in files",
  "limit-mm-per-prompt": "the number of pictures is bounded by the context alone; --max-model-len shortens it",
  "rope-scaling": "it is read from the GGUF file; choose one that was converted with the scaling you want",
};

/** vLLM does not get GGUF files, and recent versions end at this value. */
const storedVllm: ArgRules = {
  ...vllm,
  quantization: oneOfEach({ ...lifetimesOf(vllm["quantization"]), gguf: { until: "0.24" } }),
};

/** Also arguments of rows that were stored before they were refused. */
export const stored: Readonly<Record<ArgReader, ArgRules>> = {
  ...heeded,
  vllm: storedVllm,
  stoker: { ...vllm, ...stoker, dtype },
};

function lifetimesOf(rule: ArgRule | undefined): Lifetimes {
  return rule?.kind === "one-of" ? (rule.lifetimes ?? {}) : {};
}
