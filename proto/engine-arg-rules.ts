// Extra arguments that each engine accepts, with typed values: an allowlist of exact names.

export type ArgRule =
  | { readonly kind: "integer"; readonly min: number; readonly max: number }
  | { readonly kind: "number"; readonly min: number; readonly max: number }
  | { readonly kind: "one-of"; readonly values: readonly string[] }
  | { readonly kind: "flag" }
  /** A repository of GGUF weights, `owner/name` or `owner/name:file.gguf`. */
  | { readonly kind: "gguf" }
  | { readonly kind: "json"; readonly keys: readonly string[] };

export type ArgRules = Readonly<Record<string, ArgRule>>;

/** Reader of the arguments: an engine, by what it runs. */
export type ArgReader = "stoker" | "stoker-onnx" | "vllm" | "sglang";

const flag = { kind: "flag" } as const;
const oneOf = (...values: string[]) => ({ kind: "one-of", values }) as const;
const integer = (min: number, max: number) => ({ kind: "integer", min, max }) as const;

const contextLength = integer(128, 10_000_000);
const dtype = oneOf("auto", "half", "float16", "bfloat16", "float", "float32");

/** https://docs.vllm.ai: `vllm serve --help`, 0.8 to 0.18. */
const vllm: ArgRules = {
  "max-model-len": contextLength,
  dtype,
  quantization: oneOf("awq", "awq_marlin", "gptq", "gptq_marlin", "fp8", "bitsandbytes", "gguf"),
  "kv-cache-dtype": oneOf("auto", "fp8", "fp8_e4m3", "fp8_e5m2"),
  "enable-chunked-prefill": flag,
  "enable-prefix-caching": flag,
  "no-enable-prefix-caching": flag,
  "max-num-batched-tokens": integer(64, 1_048_576),
  "gpu-memory-utilization": { kind: "number", min: 0.1, max: 0.97 },
  "no-enable-lora": flag,
  "limit-mm-per-prompt": { kind: "json", keys: ["image"] },
  "enable-auto-tool-choice": flag,
  "tool-call-parser": oneOf(
    "hermes",
    "mistral",
    "llama3_json",
    "llama4_json",
    "jamba",
    "qwen3_coder",
    "deepseek_v3",
    "pythonic",
  ),
  "reasoning-parser": oneOf("deepseek_r1", "qwen3", "granite", "mistral", "glm45"),
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
export const heeded: Readonly<Record<ArgReader, ArgRules>> = { stoker, "stoker-onnx": stokerOnnx, vllm, sglang };

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

/** Also arguments of rows that were stored before `unheeded` was refused. */
export const stored: Readonly<Record<ArgReader, ArgRules>> = {
  ...heeded,
  stoker: { ...vllm, ...stoker, dtype },
};
