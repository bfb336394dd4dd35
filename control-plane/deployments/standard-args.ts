// Settings of engines by names of the interface's own (6.2), which every engine has under another one. They are kept beside the
// arguments they come to: each of the two sets is replaced without the other.
import { mostBatchSize } from "../../proto/batch-size.ts";
import type { Engine } from "./deployment.ts";
import { DeploymentRefused } from "./errors.ts";
import { type ArgsReader, isGraph } from "./extra-args.ts";

/** Absent: the engine's own default. */
export interface StandardArgs {
  readonly maxContextSize?: number;
  /** In place of max_batch_size. */
  readonly maxConcurrentRequests?: number;
  readonly maxImagesPerPrompt?: number;
  readonly gpuMemoryFraction?: number;
  readonly maxPrefillTokens?: number;
  readonly kvCacheDtype?: "auto" | "fp8";
  readonly enablePrefixCaching?: boolean;
  readonly quantization?: string;
}

/** Arguments of what can be said by one; undefined: the engine has nothing like it. `[]`: it is so without a word. */
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

/** Prefixes are kept always, memory is taken as it is needed, and weights are quantised in their file. */
const stoker: Words = {
  maxContextSize: (tokens) => [`--max-model-len=${tokens}`],
  kvCacheDtype: (type) => [`--kv-cache-dtype=${type === "fp8" ? "q8_0" : type}`],
  enablePrefixCaching: (isOn) => (isOn ? [] : refuse("enable_prefix_caching", "stoker")),
};

const wordsOf: Partial<Record<Engine, Words>> = { vllm, sglang, stoker };

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

/** Requests that an instance lets in at once: as was said last, else as it was made. */
export function batchSizeOf(one: { readonly maxBatchSize: number; readonly standardArgs?: StandardArgs }): number {
  return one.standardArgs?.maxConcurrentRequests ?? one.maxBatchSize;
}

/** Throws DeploymentRefused where the engine takes fewer. */
export function checkBatchSize(batchSize: number, engine: Engine): void {
  if (engine === "stoker" && batchSize > mostBatchSize)
    throw refused(`max_concurrent_requests is at most ${mostBatchSize} on the engine stoker.`);
}

/** What they come to at the engine. Throws DeploymentRefused for what it has no such setting of. */
export function standardAsArgs(standard: StandardArgs, engine: Engine): readonly string[] {
  const words = wordsOf[engine] ?? {};
  return (Object.keys(standard) as (keyof StandardArgs)[]).flatMap((key) => {
    const value = standard[key];
    // Its own column: the data path counts by it, not the engine alone.
    if (value === undefined || key === "maxConcurrentRequests") return [];
    const say = words[key] as ((value: unknown) => string[]) | undefined;
    return say ? say(value) : refuse(wireNames[key], engine);
  });
}

/** What a caller asks for beyond what stands there already. Throws DeploymentRefused for what would have no effect. */
export function checkStandardArgs(asked: StandardArgs, reader: ArgsReader, already: StandardArgs = {}): void {
  if (!isGraph(reader)) return;
  const keys = (Object.keys(asked) as (keyof StandardArgs)[]).filter((key) => asked[key] !== already[key]);
  const idle = keys.find((key) => standardAsArgs({ [key]: asked[key] }, reader.engine).length > 0);
  if (idle !== undefined)
    throw refused(
      `${wireNames[idle]} has no effect on the engine stoker with ONNX weights, whose lengths and types are fixed in their files; leave it out.`,
    );
}

/** Both sets as one. Throws DeploymentRefused where they say the same thing twice. */
export function withStandardArgs(own: readonly string[], standard: StandardArgs, engine: Engine): readonly string[] {
  const said = standardAsArgs(standard, engine);
  const names = new Set(own.map(nameOf));
  const twice = said.find((arg) => names.has(nameOf(arg)));
  if (twice !== undefined)
    throw refused(`${nameOf(twice)} stands in extra_args already; say it in one of the two places.`);
  return [...own, ...said];
}

/** Without what the standard ones came to. */
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

const refused = (why: string) => new DeploymentRefused(`standard_args: ${why}`, { param: "standard_args" });

function refuse(name: string, engine: string): never {
  throw refused(`${name} cannot be set so on the engine ${engine}; leave it out.`);
}
