// TextEngine on node-llama-cpp: one model, a context for it and one for each adapter, `sequences` requests at a time in shared
// batches.
import {
  type LlamaContext,
  type LlamaGrammar,
  LlamaGrammarEvaluationState,
  type LlamaModel,
  type Token,
  TokenBias,
} from "node-llama-cpp";
import { currentTenant } from "../batch/tenant.ts";
import type { EngineLoad } from "../server/engine.ts";
import {
  type ChatPrompt,
  type ChoiceSink,
  type CompiledConstraint,
  type Constraint,
  EngineRefusal,
  type GenerationJob,
  type RenderedChat,
  type TextEngine,
} from "../server/text-engine.ts";
import type { RunningUsage } from "../server/usage-log.ts";
import type { ChatTemplate } from "./chat-template.ts";
import { commonPrefix } from "./choose-sequence.ts";
import { generateChoice } from "./generate-choice.ts";
import type { ParsedGrammar } from "./grammar/gbnf-rules.ts";
import { GrammarCompiler } from "./grammar/grammar-compiler.ts";
import { GrammarGuard } from "./grammar/grammar-guard.ts";
import { UnsupportedConstraint } from "./grammar/grammar-rules.ts";
import { canPredict, type LlamaSequence, newSequence, type Predictor } from "./llama-sequence.ts";
import { AdapterRefusal } from "./lora/adapter-refusal.ts";
import { AdapterSet } from "./lora/adapter-set.ts";
import type { BaseModel } from "./lora/convert-peft.ts";
import type { OpenModel } from "./open-model.ts";
import { type PromptPart, promptTokens, type TextBound, widestToken } from "./prompt-bound.ts";
import { PromptLookup } from "./prompt-lookup.ts";
import { reportRawLogprobs } from "./raw-logprobs.ts";
import { PromptPace, Rounds } from "./rounds.ts";
import { seedOf } from "./sampler-options.ts";
import { bareModel, SequencePool } from "./sequence-pool.ts";
import { SlotStore } from "./slot-store.ts";
import { answerReader } from "./tools/answer-syntax.ts";
import type { ToolFormat } from "./tools/tool-format.ts";

/** Default of max_tokens (null or absent), unless the context has less space. */
const defaultMaxTokens = 16_384;
/** Maximum tokens that a response counts for in the order of the queue: most responses end long before their limit. */
const expectedTokens = 512;

export interface LlamaEngineOptions {
  /** With a draft model that model guesses. */
  readonly speculative: "off" | "prompt-lookup";
  /** For prompts kept under a key whose sequence another request needs; 0 = none. */
  readonly promptCacheBytes: number;
  readonly onRound: (size: number, seconds: number) => void;
  /** Time that a request waited for its sequences. */
  readonly onQueued: (seconds: number) => void;
}

class CompiledGrammar implements CompiledConstraint {
  readonly gbnf: string;
  readonly grammar: LlamaGrammar;
  readonly #parsed: ParsedGrammar;
  constructor(gbnf: string, grammar: LlamaGrammar, parsed: ParsedGrammar) {
    this.gbnf = gbnf;
    this.grammar = grammar;
    this.#parsed = parsed;
  }

  newGuard(): GrammarGuard {
    return new GrammarGuard(this.#parsed);
  }
}

export class LlamaEngine implements TextEngine {
  readonly contextLength: number;
  readonly maxBatchSize: number;
  readonly provider: string;
  readonly #open: OpenModel;
  readonly #template: ChatTemplate | undefined;
  readonly #adapters: AdapterSet;
  /** Sequences of the bare model and of every adapter. */
  readonly #sequences = new Map<string, readonly LlamaSequence[]>();
  readonly #pool: SequencePool<LlamaSequence>;
  readonly #rounds: Rounds;
  readonly #pace: PromptPace;
  readonly #bound: TextBound;
  readonly #slots: SlotStore;
  readonly #compiler = new GrammarCompiler();
  readonly #newPredictor: (() => Predictor) | undefined;
  readonly #onQueued: (seconds: number) => void;
  readonly #predictions = { accepted: 0, refuted: 0 };
  #tokensGenerated = 0;

  constructor(open: OpenModel, template: ChatTemplate | undefined, options: LlamaEngineOptions) {
    const { onRound } = options;
    this.#open = open;
    this.#newPredictor =
      open.draft?.newPredictor ?? (options.speculative === "off" ? undefined : () => new PromptLookup());
    this.#onQueued = options.onQueued;
    this.#slots = new SlotStore(options.promptCacheBytes);
    this.#template = template;
    this.#bound = {
      maxTokens: open.contextLength,
      widestToken: widestToken(open.model.fileInfo.metadata.tokenizer.ggml.tokens),
    };
    this.contextLength = open.contextLength;
    this.maxBatchSize = open.context.totalSequences;
    this.provider = open.provider;
    this.#pool = new SequencePool(this.#sequencesOf(bareModel, open.context));
    this.#adapters = new AdapterSet({
      base: baseOf(open.model),
      openContext: (file) => open.openAdapter(file),
      opened: (group, context) => this.#pool.open(group, this.#sequencesOf(group, context)),
      closed: async (group) => {
        await this.#pool.close(group);
        this.#sequences.delete(group);
      },
    });
    this.#rounds = new Rounds(onRound);
    this.#pace = new PromptPace(open.longestPromptStep);
  }

  #sequencesOf(group: string, context: LlamaContext): readonly LlamaSequence[] {
    reportRawLogprobs(context);
    const length = context.totalSequences;
    // The draft's sequences are as many as the bare model's: adapters go without.
    const newPredictor = group === bareModel || !this.#open.draft ? this.#newPredictor : undefined;
    const sequences = Array.from({ length }, (_, place) => newSequence(context, place, newPredictor?.()));
    this.#sequences.set(group, sequences);
    return sequences;
  }

  get adapters(): readonly string[] {
    return this.#adapters.names;
  }

  async loadAdapter(name: string, path: string): Promise<void> {
    try {
      await this.#adapters.load(name, path);
    } catch (error) {
      if (!(error instanceof AdapterRefusal)) throw error;
      throw new EngineRefusal(error.needsSpace ? "adapter_room" : "adapter", error.message, {
        param: "lora_path",
        cause: error,
      });
    }
  }

  unloadAdapter(name: string): boolean {
    return this.#adapters.unload(name);
  }

  get toolFormat(): ToolFormat | undefined {
    return this.#template?.toolFormat;
  }

  async renderChat(prompt: ChatPrompt): Promise<RenderedChat> {
    if (!this.#template)
      throw new EngineRefusal("prompt", "this model has no chat template; use /v1/completions", { param: "messages" });
    const { parts, reasoning } = this.#template.prompt(prompt);
    const tokens = await this.#tokensOf(parts);
    return { tokens, newReader: (tools) => answerReader(reasoning, tools ? this.toolFormat : undefined) };
  }

  tokenize(text: string): Promise<readonly number[]> {
    return this.#tokensOf([{ text, hasControl: true }]);
  }

  #tokensOf(parts: readonly PromptPart[]): Promise<readonly number[]> {
    const { model } = this.#open;
    return promptTokens(parts, this.#bound, ({ text, hasControl }, index) =>
      index === 0 && hasControl ? this.#beginning(text) : (model.tokenize(text, hasControl) as number[]),
    );
  }

  #beginning(text: string): readonly number[] {
    const { tokens } = this.#open.model;
    const ids = this.#open.model.tokenize(text, true) as number[];
    const needsBos = tokens.bos !== null && (tokens.shouldPrependBosToken || ids.length === 0) && ids[0] !== tokens.bos;
    return needsBos ? [tokens.bos as number, ...ids] : ids;
  }

  tokenText(token: number): string {
    return this.#open.model.detokenize([token as Token], true);
  }

  async promptLength({ prompt }: Pick<GenerationJob, "prompt">): Promise<number> {
    return prompt.length;
  }

  async compile(constraint: Constraint, signal: AbortSignal): Promise<CompiledConstraint> {
    try {
      const { gbnf, parsed } = await this.#compiler.compile(constraint, signal);
      return new CompiledGrammar(gbnf, await this.#open.llama.createGrammar({ grammar: gbnf }), parsed);
    } catch (error) {
      if (error instanceof EngineRefusal || signal.aborted) throw error;
      const words = error instanceof UnsupportedConstraint ? error.message : "llama.cpp cannot use its grammar";
      const [what, param] =
        constraint.kind === "tools"
          ? ["Unsupported tool schema", "tools"]
          : [constraint.kind === "json-schema" ? "Unsupported schema" : "Unsupported format", "response_format"];
      throw new EngineRefusal("constraint", `${what}: ${words}`, { param, cause: error });
    }
  }

  async generate(job: GenerationJob, sink: ChoiceSink, usage: RunningUsage, signal: AbortSignal): Promise<void> {
    const space = this.contextLength - job.prompt.length;
    if (space < 1)
      throw new EngineRefusal(
        "context_length",
        `this model's context is ${this.contextLength} tokens, but the prompt has ${job.prompt.length}; shorten it by at least ${1 - space}`,
      );
    const maxTokens = Math.min(job.maxTokens ?? defaultMaxTokens, space);
    let sequences: readonly LlamaSequence[];
    const askedAt = performance.now();
    try {
      const { prompt, choices: count, cache, cacheScope } = job;
      const ask = { group: this.#groupOf(job), prompt, count, cacheKey: cache?.key, cacheScope };
      const weight = prompt.length + count * Math.min(maxTokens, expectedTokens);
      sequences = await this.#pool.acquire({ ...ask, tenant: currentTenant(), weight }, signal);
    } catch (error) {
      if (signal.aborted) return;
      throw error;
    }
    this.#onQueued((performance.now() - askedAt) / 1000);
    const failed = new AbortController();
    const either = AbortSignal.any([signal, failed.signal]);
    const runs = sequences.map((sequence, choice) =>
      this.#runChoice(job, choice, maxTokens, sequence, sink, usage, either).catch((error: unknown) => {
        failed.abort(error);
        throw error;
      }),
    );
    const results = await Promise.allSettled(runs);
    const failure = results.find((result) => result.status === "rejected");
    if (failure) throw failure.reason;
  }

  #groupOf({ adapter }: GenerationJob): string {
    if (adapter === undefined) return bareModel;
    // A name without a group is refused by the pool: the adapter went while the request was on its way.
    return this.#adapters.groupOf(adapter) ?? adapter;
  }

  async #runChoice(
    job: GenerationJob,
    choice: number,
    maxTokens: number,
    sequence: LlamaSequence,
    sink: ChoiceSink,
    usage: RunningUsage,
    signal: AbortSignal,
  ): Promise<void> {
    const { model } = this.#open;
    const compiled = job.constraint instanceof CompiledGrammar ? job.constraint : undefined;
    const grammar = compiled && new LlamaGrammarEvaluationState({ model, grammar: compiled.grammar });
    const context = {
      model,
      rounds: this.#rounds,
      pace: this.#pace,
      maxTokens,
      guard: compiled?.newGuard(),
      sampler: {
        grammar,
        seed: seedOf(job.sampling.seed, choice, Math.random),
        newBias: () => TokenBias.for(model),
      },
      onToken: () => {
        this.#tokensGenerated += 1;
      },
    };
    let hasFailed = true;
    sequence.allowPredictions(canPredict(job.sampling) && !(this.#open.draft && job.constraint));
    const before = sequence.predictions;
    try {
      await this.#swap(job, sequence);
      await generateChoice(context, job, choice, sequence, sink, usage, signal);
      hasFailed = false;
    } finally {
      const { accepted, refuted } = sequence.predictions;
      this.#predictions.accepted += accepted - before.accepted;
      this.#predictions.refuted += refuted - before.refuted;
      sequence.keepUnder(job.cache?.key, job.cache?.ttlMs ?? 0);
      await sequence.settle(hasFailed).finally(() => this.#pool.release(sequence));
    }
  }

  /** Saves the sequence's cache of another key to a file and restores the one of this request's key. */
  async #swap({ adapter = bareModel, cache, prompt, cacheScope }: GenerationJob, sequence: LlamaSequence) {
    const { cachedTokens, cacheKey, keptUntilMs, cacheScope: held } = sequence;
    const shared = held === cacheScope ? commonPrefix(cachedTokens, prompt) : 0;
    const nameOf = (scope: string, key: string) => JSON.stringify([scope, adapter, key]);
    const isOwn = held === cacheScope && cacheKey === cache?.key;
    if (cacheKey !== undefined && !isOwn && shared < cachedTokens.length)
      await this.#slots.save(nameOf(held, cacheKey), cachedTokens, keptUntilMs, (path) => sequence.save(path));
    await sequence.enter(cacheScope);
    const file = cache && this.#slots.find(nameOf(cacheScope, cache.key), prompt, shared);
    if (file !== undefined) await sequence.restore(file);
  }

  load(): EngineLoad {
    const sequences = [...this.#sequences.values()].flat();
    const held = sequences.reduce((sum, sequence) => sum + sequence.length, 0);
    return {
      running: this.#pool.running,
      waiting: this.#pool.waiting,
      tokensGenerated: this.#tokensGenerated,
      ...(this.#newPredictor ? { predictions: { ...this.#predictions } } : {}),
      kvUsageRatio: held / (this.#open.context.contextSize * sequences.length),
    };
  }

  async gpuMemory() {
    const { llama } = this.#open;
    if (llama.gpu === false) return { usedBytes: 0, totalBytes: 0 };
    const { used, total } = await llama.getVramState();
    return { usedBytes: used, totalBytes: total };
  }

  async close(): Promise<void> {
    await this.#compiler.close();
    await this.#slots.close();
    await this.#open.close();
  }
}

/** Facts of the base model for the adapter converter, from its GGUF metadata. */
function baseOf(model: LlamaModel): BaseModel {
  const { metadata, architectureMetadata } = model.fileInfo;
  const attention = architectureMetadata.attention as Readonly<Record<string, unknown>> | undefined;
  const heads = Number(attention?.["head_count"] ?? 0);
  // Without head_count_kv, every query head has its own key head.
  return {
    architecture: metadata.general.architecture,
    heads,
    keyHeads: Number(attention?.["head_count_kv"] ?? heads),
  };
}
