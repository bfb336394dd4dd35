// The fields that completions and chat share, with the contract's bounds.
import type { Fields } from "./fields.ts";
import { invalid } from "./request-error.ts";
import type { GenerationJob } from "./text-engine.ts";

type JobFields = "choices" | "maxTokens" | "sampling" | "stops" | "stopTokenIds" | "ignoreEos" | "cache";

/** Its fields of a job go into the job unchanged. */
export interface CommonRequest extends Pick<GenerationJob, JobFields> {
  readonly stream: boolean;
  /** One more frame with usage before [DONE]. */
  readonly includeUsage: boolean;
  /** Running usage on every frame. */
  readonly continuousUsage: boolean;
  readonly tokensAsIds: boolean;
}

export function commonFields(f: Fields): CommonRequest {
  if (f.string("model") === undefined) throw invalid("model", "model is required");
  const streamOptions = f.object("stream_options") ?? {};
  for (const name of ["max_tokens", "max_completion_tokens"]) f.integer(name, { min: 1, max: 1_000_000 });
  return {
    stream: f.boolean("stream") ?? false,
    includeUsage: streamOptions["include_usage"] === true,
    continuousUsage: streamOptions["continuous_usage_stats"] === true,
    choices: f.integer("n", { min: 1, max: 4 }) ?? 1,
    maxTokens: (f.raw("max_tokens") ?? f.raw("max_completion_tokens")) as number | undefined,
    sampling: {
      temperature: f.number("temperature", { min: 0, max: 2 }) ?? 1,
      topP: f.number("top_p", { min: 0, max: 1, exclusiveMin: true }) ?? 1,
      minP: f.number("min_p", { min: 0, max: 1 }) ?? 0,
      topK: f.integer("top_k", { min: 0 }) ?? 0,
      presencePenalty: f.number("presence_penalty", { min: -2, max: 2 }) ?? 0,
      frequencyPenalty: f.number("frequency_penalty", { min: -2, max: 2 }) ?? 0,
      repetitionPenalty: f.number("repetition_penalty", { min: 0.01, max: 5 }) ?? 1,
      seed: seed(f.raw("seed")),
    },
    stops: stops(f.raw("stop")),
    stopTokenIds: stopTokenIds(f.list("stop_token_ids") ?? []),
    ignoreEos: f.boolean("ignore_eos") ?? false,
    cache: cacheRequest(f),
    tokensAsIds: f.boolean("return_tokens_as_token_ids") ?? false,
  };
}

const ttls: Readonly<Record<string, number>> = { "5m": 300_000, "1h": 3_600_000 };

function cacheRequest(f: Fields): CommonRequest["cache"] {
  const ttl = f.object("prompt_cache_options")?.["ttl"] ?? "5m";
  const ttlMs = typeof ttl === "string" && Object.hasOwn(ttls, ttl) ? ttls[ttl] : undefined;
  if (ttlMs === undefined) throw invalid("prompt_cache_options.ttl", 'prompt_cache_options.ttl must be "5m" or "1h"');
  const key = f.string("prompt_cache_key");
  return key === undefined || key === "" ? undefined : { key, ttlMs };
}

/** -2^63 <= seed < 2^64. Throws RequestError. */
export function wholeSeed(value: unknown): bigint | undefined {
  if (value === undefined) return undefined;
  if (typeof value !== "bigint" && !Number.isInteger(value)) throw invalid("seed", "seed must be a whole number");
  const whole = BigInt(value as number | bigint);
  if (whole < -(2n ** 63n) || whole >= 2n ** 64n) throw invalid("seed", "seed must be at least -2^63 and below 2^64");
  return whole;
}

/** Folded to the 32 bits that the sampler takes; small seeds stay as they are. */
function seed(value: unknown): number | undefined {
  const whole = wholeSeed(value);
  if (whole === undefined) return undefined;
  const bits = BigInt.asUintN(64, whole);
  return Number((bits ^ ((bits >> 32n) * 0x9e37_79b1n)) & 0xffff_ffffn);
}

function stops(value: unknown): readonly string[] {
  const list = value === undefined ? [] : Array.isArray(value) ? value : [value];
  if (list.length > 16) throw invalid("stop", `stop takes up to 16 sequences, not ${list.length}`);
  if (list.some((stop) => typeof stop !== "string" || stop === ""))
    throw invalid("stop", "stop must be a string or a list of strings, none of them empty");
  return list as string[];
}

function stopTokenIds(list: readonly unknown[]): readonly number[] {
  if (list.some((id) => !Number.isInteger(id) || (id as number) < 0))
    throw invalid("stop_token_ids", "stop_token_ids must be a list of token ids");
  return list as number[];
}
