// What an instance can do: measured or assumed figures of a model on a device.

export interface EngineProfile {
  readonly name: string;
  /** Prompt tokens that are evaluated per second when nothing else runs. */
  readonly prefillTokensPerSecond: number;
  /** Duration of a step that gives each running sequence one token: fixed, for each sequence, for each 1,000 tokens of context. */
  readonly stepMs: number;
  readonly stepMsPerSequence: number;
  readonly stepMsPerKiloContext: number;
  /** Maximum prompt tokens in one step. */
  readonly chunkTokens: number;
  readonly maxBatchSize: number;
  /** Tokens that its key-value cache holds, running requests included. */
  readonly cacheTokens: number;
  /** From the decision to start an instance until it serves. */
  readonly coldStartMs: number;
  /** Of one instance. */
  readonly gpus: number;
}

const base: EngineProfile = {
  name: "8b",
  prefillTokensPerSecond: 10_000,
  stepMs: 18,
  stepMsPerSequence: 0.12,
  stepMsPerKiloContext: 0.06,
  chunkTokens: 2_048,
  maxBatchSize: 96,
  cacheTokens: 400_000,
  coldStartMs: 60_000,
  gpus: 1,
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
