// The port of the HTTP layer onto whatever generates text. Implemented by llama/; speaks tokens, pieces and reasons,
// never JSON of the wire.
import type { ToolCallParser, ToolDefinition, ToolFormat } from "../llama/tools/tool-format.ts";
import type { AdapterHost, Engine } from "./engine.ts";
import type { RunningUsage } from "./usage-log.ts";

export interface Sampling {
  /** 0 = greedy. */
  readonly temperature: number;
  readonly topP: number;
  readonly minP: number;
  /** 0 = off. */
  readonly topK: number;
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  readonly repetitionPenalty: number;
  /** 32 bits; undefined = random. */
  readonly seed: number | undefined;
}

export type Constraint =
  | { readonly kind: "json-object" }
  | { readonly kind: "json-schema"; readonly schema: unknown }
  | { readonly kind: "regex"; readonly regex: string }
  | {
      readonly kind: "tools";
      /** Name of a tool format of the engine. */
      readonly format: string;
      readonly tools: readonly ToolDefinition[];
      readonly maxCalls: number;
    };

/** A constraint made ready by the engine that will apply it. */
export interface CompiledConstraint {
  readonly gbnf: string;
}

export interface TokenLogprob {
  readonly token: number;
  readonly logprob: number | undefined;
  /** Most likely first; natural logarithms of the model's own distribution, before any sampling setting. */
  readonly top: readonly { readonly token: number; readonly logprob: number }[];
  /** Characters of generated text before this token. */
  readonly offset: number;
}

export interface Piece {
  readonly text: string;
  readonly logprobs: readonly TokenLogprob[];
  /** Tokens generated since the last piece. */
  readonly tokens?: number;
}

export type FinishReason = "stop" | "length";

export interface RenderedChat {
  readonly tokens: readonly number[];
  /** Reads one answer's reasoning, and its tool calls where they are looked for; undefined where all of it is text. */
  newReader(tools: boolean): ToolCallParser | undefined;
}

export interface EngineImage {
  readonly bytes: Uint8Array;
  /** An impression of the whole is enough. */
  readonly isCoarse: boolean;
  /** Its position in the request. */
  readonly param: string;
}

export interface GenerationJob {
  readonly prompt: readonly number[];
  /** In the order of their places in the prompt; none for an engine that takes none. */
  readonly images: readonly EngineImage[];
  readonly choices: number;
  /** Undefined: as many as fit into the context, at most 16384. */
  readonly maxTokens: number | undefined;
  readonly sampling: Sampling;
  readonly stops: readonly string[];
  readonly stopTokenIds: readonly number[];
  readonly ignoreEos: boolean;
  /** Number of alternatives per token; undefined = no logprobs. */
  readonly topLogprobs: number | undefined;
  /** Asks for `prompt` on the sink; the prompt is then evaluated again. */
  readonly scorePrompt: boolean;
  readonly constraint: CompiledConstraint | undefined;
  /** Undefined = the bare model. */
  readonly adapter: string | undefined;
  /** Key under which the evaluated prompt is cached. */
  readonly cache: { readonly key: string; readonly ttlMs: number } | undefined;
  /** Evaluated prompts are reused only by requests of the same scope. */
  readonly cacheScope: string;
  /** Tool formats need to see control tokens that plain text hides. */
  readonly showsSpecialTokens: boolean;
}

export interface ChoiceSink {
  prompt?(choice: number, scores: readonly TokenLogprob[]): void;
  /** A returned promise holds this choice's next token back until the client has read. */
  piece(choice: number, piece: Piece): Promise<void> | undefined;
  /** `stop`: stop sequence that ended the choice. */
  finish(choice: number, reason: FinishReason, stop?: string): void;
}

export type ContentPart = { readonly type: "text"; readonly text: string } | { readonly type: "image" };

export interface ChatMessage {
  readonly role: string;
  /** Parts where the engine takes pictures, else a string: as templates of either kind expect it. */
  readonly content: string | readonly ContentPart[];
  readonly [key: string]: unknown;
}

export interface ChatPrompt {
  readonly messages: readonly ChatMessage[];
  /** In the wire's own shape, as templates expect them. */
  readonly tools: readonly unknown[] | undefined;
  readonly continuesLastMessage: boolean;
  readonly templateArguments: Readonly<Record<string, unknown>>;
}

/** The engine refuses this request for a reason its sender may act on. */
export class EngineRefusal extends Error {
  readonly code: "prompt" | "constraint" | "context_length" | "busy" | "choices" | "adapter" | "adapter_room";
  readonly param: string | undefined;
  constructor(code: EngineRefusal["code"], message: string, options: { param?: string; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.name = "EngineRefusal";
    this.code = code;
    this.param = options.param;
  }
}

export interface TextEngine extends Engine, AdapterHost {
  /** Undefined: a request with pictures is refused. */
  readonly takesImages?: boolean;
  /** Undefined: the chat template has no place for tools. */
  readonly toolFormat: ToolFormat | undefined;
  /** Throws EngineRefusal("prompt"), and "context_length" for a prompt that is too long to be tokenised at all. */
  renderChat(prompt: ChatPrompt): Promise<RenderedChat>;
  /** Throws EngineRefusal("context_length") likewise. */
  tokenize(text: string): Promise<readonly number[]>;
  tokenText(token: number): string;
  /** Number of tokens that `generate` counts as input. Throws EngineRefusal("prompt") for an image that cannot be read. */
  promptLength(job: Pick<GenerationJob, "prompt" | "images">, signal: AbortSignal): Promise<number>;
  /** Throws EngineRefusal("constraint"), "busy" when too many requests wait, and the signal's reason when the client left. */
  compile(constraint: Constraint, signal: AbortSignal): Promise<CompiledConstraint>;
  /** Throws EngineRefusal before the first token; after an abort returns normally, with the counts final. */
  generate(job: GenerationJob, sink: ChoiceSink, usage: RunningUsage, signal: AbortSignal): Promise<void>;
}

export function isTextEngine(engine: Engine): engine is TextEngine {
  return "generate" in engine;
}

/** Undefined: an engine that takes no adapters while it runs. */
export const adapterHostOf = (engine: Engine): AdapterHost | undefined =>
  isTextEngine(engine) ? engine : engine.adapterHost;
