// Extra arguments of engines: an allowlist with typed values, never a denylist. Engines take `_` for `-`, unique prefixes
// and dotted keys, so only the exact name, the exact form and a value of the right type get through to argv. The control
// plane refuses what does not pass, and the agent looks again: it obeys no control plane with an argument of its own.

export type ArgRule =
  | { readonly kind: "integer"; readonly min: number; readonly max: number }
  | { readonly kind: "number"; readonly min: number; readonly max: number }
  | { readonly kind: "one-of"; readonly values: readonly string[] }
  | { readonly kind: "flag" }
  /** A repository of GGUF weights, `owner/name` or `owner/name:file.gguf`. */
  | { readonly kind: "gguf" }
  | { readonly kind: "json"; readonly keys: readonly string[] };

export type ArgRules = Readonly<Record<string, ArgRule>>;

const form = /^--([a-z0-9-]+)(?:=(.{0,512}))?$/;
const maxArgs = 32;
const ggufForm = /^([A-Za-z0-9][\w.-]{0,95}\/[\w.-]{1,96})(?::([\w][\w./+-]{0,200}\.gguf))?$/;

const dtypes = ["auto", "half", "float16", "bfloat16", "float", "float32"];
const flag = { kind: "flag" } as const;
const oneOf = (...values: string[]) => ({ kind: "one-of", values }) as const;
const integer = (min: number, max: number) => ({ kind: "integer", min, max }) as const;

/** https://docs.vllm.ai: `vllm serve --help`, 0.8 to 0.18. */
const vllm: ArgRules = {
  "max-model-len": integer(128, 10_000_000),
  dtype: oneOf(...dtypes),
  quantization: oneOf("awq", "awq_marlin", "gptq", "gptq_marlin", "fp8", "bitsandbytes", "gguf"),
  "kv-cache-dtype": oneOf("auto", "fp8", "fp8_e4m3", "fp8_e5m2", "f16", "q8_0"),
  "enable-chunked-prefill": flag,
  "enable-prefix-caching": flag,
  "no-enable-prefix-caching": flag,
  "max-num-batched-tokens": integer(64, 1_048_576),
  "gpu-memory-utilization": { kind: "number", min: 0.1, max: 0.97 },
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
  "context-length": integer(128, 10_000_000),
  dtype: oneOf(...dtypes),
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

/** `runtime/engine-options.ts`; the names people bring from vLLM pass, and `max-model-len` is heeded. */
const stoker: ArgRules = {
  ...vllm,
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
};

const rulesOf: Readonly<Record<string, ArgRules>> = { stoker, vllm, sglang };

/** Undefined where all of them pass, else a sentence on the first that does not. */
export function whyArgsRefused(engine: string, args: readonly string[]): string | undefined {
  const rules = Object.hasOwn(rulesOf, engine) ? (rulesOf[engine] as ArgRules) : {};
  if (args.length > maxArgs) return `At most ${maxArgs} extra arguments are taken.`;
  const seen = new Set<string>();
  for (const arg of args) {
    const parts = form.exec(arg);
    if (!parts) return `${quote(arg)} is not of the form --name or --name=value.`;
    const [, name, value] = parts as unknown as [string, string, string | undefined];
    const rule = Object.hasOwn(rules, name) ? rules[name] : undefined;
    if (!rule) {
      const known = Object.keys(rules).map((key) => `--${key}`);
      const list = known.length > 0 ? known.join(", ") : "none";
      return `${quote(`--${name}`)} is not among the arguments that may be set: ${list}.`;
    }
    const why = refuse(rule, value);
    if (why) return `${quote(arg)}: ${why}.`;
    if (seen.has(name)) return `${quote(`--${name}`)} is given twice.`;
    seen.add(name);
  }
  return undefined;
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

/** What `--draft-model` names. */
export function draftModelOf(
  args: readonly string[],
): { readonly repo: string; readonly file: string | undefined } | undefined {
  const given = args.find((arg) => arg.startsWith("--draft-model="))?.slice("--draft-model=".length);
  const [, repo, file] = ggufForm.exec(given ?? "") ?? [];
  return repo === undefined ? undefined : { repo, file };
}
