// What an instance can do: measured or assumed figures of a model on a device.

export interface EngineProfile {
  readonly name: string;
  /** Prompt tokens that are evaluated per second when nothing else runs. */
  readonly prefillTokensPerSecond: number;
  /** Share by which evaluating a token takes longer for each 1,000 tokens before it. */
  readonly prefillSlowdownPerKiloContext: number;
  /** Duration of a step that gives each running sequence one token: fixed, for each sequence, for each 1,000 tokens of context. */
  readonly stepMs: number;
  readonly stepMsPerSequence: number;
  readonly stepMsPerKiloContext: number;
  /** Maximum prompt tokens in one step: of all prompts in turn, of each prompt together. */
  readonly chunkTokens: number;
  /** An engine that shortens chunks so that a step takes about this long does not go below `minChunkTokens`; 0: it does not. */
  readonly maxStepMs: number;
  readonly minChunkTokens: number;
  /** `in-turn`: first come, first served, as vLLM. `together`: equal parts of all prompts in each step, as llama.cpp. */
  readonly prompts: "in-turn" | "together";
  /** `blocks`: all requests share one cache, as vLLM. `slots`: each batch slot keeps its latest request, as llama.cpp. */
  readonly cache: "blocks" | "slots";
  /** From the arrival at the engine to its first step: parsing, tokenizing. */
  readonly requestMs: number;
  readonly maxBatchSize: number;
  /** Tokens that a cache of blocks holds, running requests included. */
  readonly cacheTokens: number;
  /** From the decision to start an instance until it serves. */
  readonly coldStartMs: number;
  /** GPUs of one instance. */
  readonly gpus: number;
}

const base: EngineProfile = {
  name: "8b",
  prefillTokensPerSecond: 10_000,
  stepMs: 18,
  stepMsPerSequence: 0.12,
  stepMsPerKiloContext: 0.06,
  prefillSlowdownPerKiloContext: 0,
  chunkTokens: 2_048,
  maxStepMs: 0,
  minChunkTokens: 16,
  prompts: "in-turn",
  cache: "blocks",
  requestMs: 0,
  maxBatchSize: 96,
  cacheTokens: 400_000,
  coldStartMs: 60_000,
  gpus: 1,
};

/** Fields with names of behaviours instead of numbers. */
export const profileWords: Readonly<Record<string, readonly string[]>> = {
  prompts: ["in-turn", "together"],
  cache: ["blocks", "slots"],
};

/** `8b`: 8 billion parameters on a card of 48 GB. The other names say what differs. */
export const profiles = {
  "8b": base,
  "8b-fast": {
    ...base,
    name: "8b-fast",
    prefillTokensPerSecond: 30_000,
    stepMs: 8,
    stepMsPerSequence: 0.05,
    stepMsPerKiloContext: 0.02,
    chunkTokens: 8_192,
    maxBatchSize: 256,
    cacheTokens: 500_000,
  },
  "8b-small-cache": { ...base, name: "8b-small-cache", cacheTokens: 120_000 },
  "70b": {
    ...base,
    name: "70b",
    prefillTokensPerSecond: 6_000,
    stepMs: 26,
    stepMsPerSequence: 0.2,
    maxBatchSize: 64,
    cacheTokens: 600_000,
    coldStartMs: 240_000,
    gpus: 4,
  },
} as const satisfies Record<string, EngineProfile>;
