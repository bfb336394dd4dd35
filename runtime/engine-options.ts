// The arguments of the model server: what a deployment's extra_args may set, as `--name value` or `--name=value`.
import { parseArgs } from "node:util";

const choices = {
  "flash-attn": ["auto", "on", "off"],
  "kv-cache-dtype": ["f16", "q8_0", "q4_0"],
  speculative: ["off", "prompt-lookup"],
  "tool-call-parser": ["auto", "hermes", "llama3", "mistral", "deepseek", "granite", "gpt-oss"],
  "reasoning-parser": ["auto", "off", "think", "mistral", "granite", "gpt-oss"],
} as const;
/** Other engines' words for the same. */
const synonyms: Readonly<Record<string, string>> = {
  "kv-cache-dtype=auto": "f16",
  "tool-call-parser=llama3_json": "llama3",
  "tool-call-parser=deepseek_v3": "deepseek",
  "reasoning-parser=deepseek_r1": "think",
  "reasoning-parser=qwen3": "think",
};
type Name = keyof typeof choices;

const mib = 1024 * 1024;
const defaultPromptCacheMiB = 256;
const maxPromptCacheMiB = 65_536;

export type EngineOptions = ReturnType<typeof readEngineOptions>;

/** Adds invalid values to `problems`. */
export function readEngineOptions(args: readonly string[], problems: string[]) {
  const given = parse(args, problems);
  const pick = <N extends Name>(name: N): (typeof choices)[N][number] => {
    const [fallback] = choices[name];
    const raw = given[name] ?? fallback;
    const value = synonyms[`${name}=${raw}`] ?? raw;
    const found = choices[name].find((choice) => choice === value);
    if (found === undefined) problems.push(`--${name} must be one of ${choices[name].join(", ")}, not "${value}"`);
    return found ?? fallback;
  };
  const promptCacheMiB = Number(given["prompt-cache-mib"] ?? defaultPromptCacheMiB);
  if (!Number.isInteger(promptCacheMiB) || promptCacheMiB < 0 || promptCacheMiB > maxPromptCacheMiB)
    problems.push(`--prompt-cache-mib must be a whole number from 0 to ${maxPromptCacheMiB}`);
  const flash = pick("flash-attn");
  const kvCacheType = pick("kv-cache-dtype");
  if (kvCacheType !== "f16" && flash === "off")
    problems.push(`--kv-cache-dtype ${kvCacheType} needs --flash-attn auto or on`);
  return {
    flashAttention: flash === "auto" ? flash : flash === "on",
    /** Type of the cells of keys and values. Quantised ones save memory and need flash attention. */
    kvCacheType,
    speculative: pick("speculative"),
    /** Maximum bytes of prompt caches stored in files under a key; 0: none. */
    promptCacheBytes: promptCacheMiB * mib,
    /** `auto`: by the chat template. */
    toolCallParser: pick("tool-call-parser"),
    reasoningParser: pick("reasoning-parser"),
  };
}

/** Ignores names that only other engines read: forbidden ones were refused before. */
function parse(args: readonly string[], problems: string[]): Readonly<Record<string, string | undefined>> {
  const options = Object.fromEntries(
    [...Object.keys(choices), "prompt-cache-mib"].map((name) => [name, { type: "string" as const }]),
  );
  try {
    const { values } = parseArgs({ args: [...args], options, strict: false });
    return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, String(value)]));
  } catch (error) {
    problems.push((error as Error).message);
    return {};
  }
}
