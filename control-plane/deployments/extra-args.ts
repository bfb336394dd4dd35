// Extra arguments of an engine: an allowlist with typed values, never a denylist. Engines take `_` for `-`, unique prefixes
// and dotted keys, so only the exact name, the exact form and a value of the right type get through to argv.
import { ExtraArgRefused } from "./errors.ts";

type Rule =
  | { readonly kind: "integer"; readonly min: number; readonly max: number }
  | { readonly kind: "number"; readonly min: number; readonly max: number }
  | { readonly kind: "one-of"; readonly values: readonly string[] }
  | { readonly kind: "flag" }
  | { readonly kind: "json"; readonly keys: readonly string[] };

const form = /^--([a-z0-9-]+)(?:=(.{0,512}))?$/;
const maxArgs = 32;

const rules: Readonly<Record<string, Rule>> = {
  "max-model-len": { kind: "integer", min: 128, max: 10_000_000 },
  dtype: { kind: "one-of", values: ["auto", "half", "float16", "bfloat16", "float", "float32"] },
  quantization: { kind: "one-of", values: ["awq", "awq_marlin", "gptq", "gptq_marlin", "fp8", "bitsandbytes", "gguf"] },
  "kv-cache-dtype": { kind: "one-of", values: ["auto", "fp8", "fp8_e4m3", "fp8_e5m2", "f16", "q8_0"] },
  "enable-chunked-prefill": { kind: "flag" },
  "enable-prefix-caching": { kind: "flag" },
  "no-enable-prefix-caching": { kind: "flag" },
  "max-num-batched-tokens": { kind: "integer", min: 64, max: 1_048_576 },
  "gpu-memory-utilization": { kind: "number", min: 0.1, max: 0.95 },
  "enable-auto-tool-choice": { kind: "flag" },
  "tool-call-parser": {
    kind: "one-of",
    values: ["hermes", "mistral", "llama3_json", "llama4_json", "jamba", "qwen3_coder", "deepseek_v3", "pythonic"],
  },
  "reasoning-parser": { kind: "one-of", values: ["deepseek_r1", "qwen3", "granite", "mistral", "glm45"] },
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

/** What passes, as it was given. Throws ExtraArgRefused naming the first that does not, and why. */
export function checkExtraArgs(args: readonly string[]): readonly string[] {
  if (args.length > maxArgs) throw new ExtraArgRefused(`At most ${maxArgs} extra arguments are taken.`);
  const seen = new Set<string>();
  for (const arg of args) {
    const parts = form.exec(arg);
    if (!parts) throw new ExtraArgRefused(`${quote(arg)} is not of the form --name or --name=value.`);
    const [, name, value] = parts as unknown as [string, string, string | undefined];
    const rule = Object.hasOwn(rules, name) ? rules[name] : undefined;
    if (!rule) {
      const known = Object.keys(rules)
        .map((key) => `--${key}`)
        .join(", ");
      throw new ExtraArgRefused(`${quote(`--${name}`)} is not among the arguments that may be set: ${known}.`);
    }
    const why = refuse(rule, value);
    if (why) throw new ExtraArgRefused(`${quote(arg)}: ${why}.`);
    if (seen.has(name)) throw new ExtraArgRefused(`${quote(`--${name}`)} is given twice.`);
    seen.add(name);
  }
  return args;
}

/** The value of `--max-model-len`, or 0. */
export function contextLengthOf(args: readonly string[]): number {
  const arg = args.find((one) => one.startsWith("--max-model-len="));
  return arg ? Number(arg.slice("--max-model-len=".length)) : 0;
}

function refuse(rule: Rule, value: string | undefined): string | undefined {
  if (rule.kind === "flag") return value === undefined ? undefined : "it takes no value";
  if (value === undefined) return "it needs a value, as --name=value";
  if (rule.kind === "one-of")
    return rule.values.includes(value) ? undefined : `its value is one of ${rule.values.join(", ")}`;
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
