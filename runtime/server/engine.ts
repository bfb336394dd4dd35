// Engine port of the HTTP layer: the facts of every engine, and its paths besides text generation.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { UsageEntry } from "./usage-log.ts";

export interface EngineLoad {
  readonly running: number;
  readonly waiting: number;
  readonly tokensGenerated: number;
  readonly kvUsageRatio: number;
  /** Guessed tokens of speculative decoding. */
  readonly predictions?: { readonly accepted: number; readonly refuted: number };
}

/** LoRA adapters that are loaded and dropped while the engine serves. */
export interface AdapterHost {
  readonly adapters: readonly string[];
  /** Throws EngineRefusal("adapter" | "adapter_room"). `path`: a folder or file as the adapter's tool saves it. */
  loadAdapter(name: string, path: string): Promise<void>;
  /** False when it was not loaded. Requests that use it are finished first. */
  unloadAdapter(name: string): boolean;
}

export interface Engine {
  /** Tokens of one input; 0 where inputs are no text. */
  readonly contextLength: number;
  readonly maxBatchSize: number;
  readonly provider: string;
  /** Deviations from the requested options, in sentences, for GET /health. */
  readonly warnings?: readonly string[];
  /** By path, e.g. `/v1/embeddings`. */
  readonly tasks?: ReadonlyMap<string, TaskRoute>;
  /** Undefined: a task that takes no adapters while it runs. */
  readonly adapterHost?: AdapterHost | undefined;
  /** Undefined without a GPU. */
  gpuMemory?(): Promise<{ readonly usedBytes: number; readonly totalBytes: number }>;
  load(): EngineLoad;
  close(): Promise<void>;
}

/** The `gen_ai_operation_name` of metrics. */
export type Operation =
  | "chat"
  | "text_completion"
  | "token_count"
  | "embeddings"
  | "rerank"
  | "inference"
  | "image_generation"
  | "text_to_speech"
  | "transcription";

export interface TaskCall {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Aborts when the client is gone. */
  readonly signal: AbortSignal;
  /** Kept up to date: what a client that hangs up has used. */
  readonly usage: UsageEntry;
  /** Evaluated prompts are reused only by requests of the same scope. */
  readonly cacheScope: string;
  /** Milliseconds of audio that were admitted; undefined: unknown. */
  readonly maxAudioMs: number | undefined;
  /** The name the model is served under. */
  readonly model: string;
  /** Adapters that were unloaded. */
  readonly formerAdapters: ReadonlySet<string>;
  /** The first token, audio or picture is on its way. */
  readonly onFirstToken: () => void;
}

export interface TaskRoute {
  readonly operation: Operation;
  /** Reads the body and writes the answer; throws RequestError before the first byte. */
  run(call: TaskCall): Promise<void>;
}
