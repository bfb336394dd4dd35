// Engine settings under the interface's own names (6.2), which differ per engine. They are stored beside the resulting
// arguments: each set is replaced independently.
import { maxBatchSize } from "../../proto/batch-size.ts";
import { maxLlamaBatch } from "../../proto/engine-args.ts";
import type { Engine, StandardArgs } from "./deployment.ts";
import { deploymentRefused } from "./errors.ts";
import { type ArgsReader, isGraph } from "./extra-args.ts";

/** Arguments for each setting; undefined: the engine has no such setting. `[]`: it is the engine's default. */
type Words = { readonly [Key in keyof Required<StandardArgs>]?: (value: Required<StandardArgs>[Key]) => string[] };

const vllm: Words = {
  maxContextSize: (tokens) => [`--max-model-len=${tokens}`],
  maxImagesPerPrompt: (images) => [`--limit-mm-per-prompt={"image":${images}}`],
  gpuMemoryFraction: (share) => [`--gpu-memory-utilization=${share}`],
  maxPrefillTokens: (tokens) => [`--max-num-batched-tokens=${tokens}`],
  kvCacheDtype: (type) => [`--kv-cache-dtype=${type}`],
  enablePrefixCaching: (isOn) => [isOn ? "--enable-prefix-caching" : "--no-enable-prefix-caching"],
  quantization: (method) => [`--quantization=${method}`],
};

const sglang: Words = {
  maxContextSize: (tokens) => [`--context-length=${tokens}`],
  gpuMemoryFraction: (share) => [`--mem-fraction-static=${share}`],
  maxPrefillTokens: (tokens) => [`--max-prefill-tokens=${tokens}`],
  kvCacheDtype: (type) => [`--kv-cache-dtype=${type === "fp8" ? "fp8_e4m3" : type}`],
  enablePrefixCaching: (isOn) => (isOn ? [] : ["--disable-radix-cache"]),
  quantization: (method) => [`--quantization=${method}`],
};

/** Prefix caching is always on, memory is allocated on demand, and weights are quantised in their file. */
const stoker: Words = {
  maxContextSize: (tokens) => [`--max-model-len=${tokens}`],
  kvCacheDtype: (type) => [`--kv-cache-dtype=${type === "fp8" ? "q8_0" : type}`],
  enablePrefixCaching: (isOn) => (isOn ? [] : refuse("enable_prefix_caching", "stoker")),
};

/** Memory is allocated at start for every request, and weights are quantised in their file. */
const llamacpp: Words = {
  maxContextSize: (tokens) => [`--max-model-len=${tokens}`],
  maxPrefillTokens: (tokens) => {
    if (tokens <= maxLlamaBatch) return [`--batch-size=${tokens}`];
    throw refused(`max_prefill_tokens must be at most ${maxLlamaBatch} on the engine llamacpp.`);
  },
  kvCacheDtype: (type) => (type === "fp8" ? ["--cache-type-k=q8_0", "--cache-type-v=q8_0"] : []),
  enablePrefixCaching: (isOn) => (isOn ? [] : ["--no-cache-prompt"]),
};

const wordsOf: Partial<Record<Engine, Words>> = { vllm, sglang, llamacpp, stoker };

const wireNames: Record<keyof StandardArgs, string> = {
  maxContextSize: "max_context_size",
  maxConcurrentRequests: "max_concurrent_requests",
  maxImagesPerPrompt: "max_images_per_prompt",
  gpuMemoryFraction: "gpu_memory_fraction",
  maxPrefillTokens: "max_prefill_tokens",
  kvCacheDtype: "kv_cache_dtype",
  enablePrefixCaching: "enable_prefix_caching",
  quantization: "quantization",
};

/** Concurrent requests an instance accepts: as last set, otherwise as created. */
export function batchSizeOf(one: { readonly maxBatchSize: number; readonly standardArgs?: StandardArgs }): number {
  return one.standardArgs?.maxConcurrentRequests ?? one.maxBatchSize;
}

/** Throws deploymentRefused when the engine supports fewer. */
export function checkBatchSize(batchSize: number, engine: Engine): void {
  if (engine === "stoker" && batchSize > maxBatchSize)
    throw refused(`max_concurrent_requests must be at most ${maxBatchSize} on the engine stoker.`);
}

/** Converts to the engine's arguments. Throws deploymentRefused for an unsupported setting. */
export function standardAsArgs(standard: StandardArgs, engine: Engine): readonly string[] {
  const words = wordsOf[engine] ?? {};
  return (Object.keys(standard) as (keyof StandardArgs)[]).flatMap((key) => {
    const value = standard[key];
    // It has its own column: the data path uses it too.
    if (value === undefined || key === "maxConcurrentRequests") return [];
    const convert = words[key] as ((value: unknown) => string[]) | undefined;
    return convert ? convert(value) : refuse(wireNames[key], engine);
  });
}

/** Checks changes by the caller. Throws deploymentRefused for settings without effect. */
export function checkStandardArgs(next: StandardArgs, reader: ArgsReader, already: StandardArgs = {}): void {
  if (!isGraph(reader)) return;
  const keys = (Object.keys(next) as (keyof StandardArgs)[]).filter((key) => next[key] !== already[key]);
  const idle = keys.find((key) => standardAsArgs({ [key]: next[key] }, reader.engine).length > 0);
  if (idle !== undefined)
    throw refused(
      `${wireNames[idle]} has no effect on the engine stoker with ONNX weights, because their files fix lengths and types; remove it.`,
    );
}

/** Merges both sets. Throws deploymentRefused for duplicates. */
export function withStandardArgs(own: readonly string[], standard: StandardArgs, engine: Engine): readonly string[] {
  const said = standardAsArgs(standard, engine);
  const names = new Set(own.map(nameOf));
  const twice = said.find((arg) => names.has(nameOf(arg)));
  if (twice !== undefined) throw refused(`${nameOf(twice)} is also set in extra_args; set it only once.`);
  return [...own, ...said];
}

/** Removes the arguments that the standard settings produced. */
export function ownArgs(one: {
  readonly extraArgs: readonly string[];
  readonly standardArgs?: StandardArgs;
  readonly engine: Engine;
}): readonly string[] {
  const said = new Set(standardAsArgs(one.standardArgs ?? {}, one.engine));
  return one.extraArgs.filter((arg) => !said.has(arg));
}

export function readStandardArgs(wire: Readonly<Record<string, unknown>> | null | undefined): StandardArgs {
  const keys = Object.keys(wireNames) as (keyof StandardArgs)[];
  const given = keys.map((key) => [key, wire?.[wireNames[key]] ?? undefined] as const);
  return Object.fromEntries(given.filter(([, value]) => value !== undefined)) as StandardArgs;
}

export function writeStandardArgs(standard: StandardArgs): Record<string, unknown> {
  const keys = Object.keys(standard) as (keyof StandardArgs)[];
  return Object.fromEntries(keys.map((key) => [wireNames[key], standard[key]]));
}

const nameOf = (arg: string) => arg.split("=", 1)[0] as string;

const refused = (why: string) => deploymentRefused(`standard_args: ${why}`, { param: "standard_args" });

function refuse(name: string, engine: string): never {
  throw refused(`${name} is not supported on the engine ${engine}; remove it.`);
}
