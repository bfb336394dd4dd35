// TextEngine on a model that reads pictures: picture tokens of a prompt are replaced by features, and the answer
// is generated token by token. Requests take their steps in turns.
import { setImmediate as turn } from "node:timers/promises";
import type { ChatTemplate } from "../../llama/chat-template.ts";
import { ChoiceText, PieceDecoder } from "../../llama/choice-text.ts";
import { promptTokens, type TextBound } from "../../llama/prompt-bound.ts";
import { seedOf } from "../../llama/sampler-options.ts";
import { answerReader } from "../../llama/tools/answer-syntax.ts";
import type { ToolFormat } from "../../llama/tools/tool-format.ts";
import { PictureError } from "../../onnx/image-processor.ts";
import type { PictureTiler } from "../../onnx/picture-tiler.ts";
import type { Tiles } from "../../onnx/tile-thread.ts";
import {
  type ChatPrompt,
  type ChoiceSink,
  type CompiledConstraint,
  EngineRefusal,
  type GenerationJob,
  type Piece,
  type RenderedChat,
  type TextEngine,
} from "../../server/text-engine.ts";
import type { RunningUsage } from "../../server/usage-log.ts";
import { joined } from "../numbers.ts";
import type { TaskDeps } from "../task-engine.ts";
import { type ImageTokens, imageText, placeImages } from "./image-prompt.ts";
import { logprobsOf, sampleToken, seededRandom } from "./sample.ts";
import type { Memory, VisionGraphs } from "./vision-graphs.ts";

export interface VisionTokenizer {
  /** Maximum characters of one token. */
  readonly widestToken: number;
  /** Special tokens of the text are taken as such. */
  encode(text: string): readonly number[];
  /** Text that looks like a special token stays text. */
  encodePlain(text: string): readonly number[];
  decode(tokens: readonly number[]): string;
  textOf(token: number): string;
}

export interface VisionParts {
  readonly graphs: VisionGraphs;
  readonly tiler: PictureTiler;
  readonly tokenizer: VisionTokenizer;
  readonly template: ChatTemplate | undefined;
  readonly imageTokens: ImageTokens;
  readonly imageToken: number;
  /** Tokens that end an answer. */
  readonly ends: ReadonlySet<number>;
  readonly contextLength: number;
}

export interface VisionFacts extends Pick<TaskDeps, "maxBatchSize" | "observe"> {
  readonly provider: string;
  readonly warnings: readonly string[];
  close(): Promise<void>;
}

/** Prompt tokens per step: a disconnected client is noticed in between. */
const promptStep = 256;
const defaultMaxTokens = 16_384;

interface Started {
  readonly memory: Memory;
  readonly scores: Float32Array;
  readonly prompt: readonly number[];
}

export class VisionEngine implements TextEngine {
  readonly takesImages = true;
  readonly adapters: readonly string[] = [];
  readonly contextLength: number;
  readonly maxBatchSize: number;
  readonly provider: string;
  readonly warnings: readonly string[];
  readonly #parts: VisionParts;
  readonly #facts: VisionFacts;
  #running = 0;
  #held = 0;
  #tokensGenerated = 0;

  constructor(parts: VisionParts, facts: VisionFacts) {
    this.#parts = parts;
    this.#facts = facts;
    this.contextLength = parts.contextLength;
    this.maxBatchSize = facts.maxBatchSize;
    this.provider = facts.provider;
    this.warnings = facts.warnings;
  }

  get #bound(): TextBound {
    return { maxTokens: this.contextLength, widestToken: this.#parts.tokenizer.widestToken };
  }

  get toolFormat(): ToolFormat | undefined {
    return this.#parts.template?.toolFormat;
  }

  async renderChat(prompt: ChatPrompt): Promise<RenderedChat> {
    const { template, tokenizer } = this.#parts;
    if (!template)
      throw new EngineRefusal("prompt", "this model has no chat template; use /v1/completions", { param: "messages" });
    const { parts, reasoning } = template.prompt(prompt);
    const tokens = await promptTokens(parts, this.#bound, ({ text, hasControl }) =>
      hasControl ? tokenizer.encode(text) : tokenizer.encodePlain(text),
    );
    return { tokens, newReader: (tools) => answerReader(reasoning, tools ? this.toolFormat : undefined) };
  }

  tokenize(text: string): Promise<readonly number[]> {
    const { tokenizer } = this.#parts;
    return promptTokens([{ text, hasControl: true }], this.#bound, (part) => tokenizer.encode(part.text));
  }

  tokenText(token: number): string {
    return this.#parts.tokenizer.textOf(token);
  }

  async promptLength(job: Pick<GenerationJob, "prompt" | "images">, signal: AbortSignal): Promise<number> {
    const prompt = await this.#withPlaces(job, async () => signal.throwIfAborted());
    return prompt.length;
  }

  async compile(): Promise<CompiledConstraint> {
    const words =
      "This model does not support response formats. Describe the format in the prompt, or use a model without image input.";
    throw new EngineRefusal("constraint", words);
  }

  async loadAdapter(): Promise<void> {
    throw new EngineRefusal("adapter", "this model takes no adapters", { param: "lora_path" });
  }

  unloadAdapter(): boolean {
    return false;
  }

  async generate(job: GenerationJob, sink: ChoiceSink, usage: RunningUsage, signal: AbortSignal): Promise<void> {
    if (job.scorePrompt)
      throw new EngineRefusal("prompt", "this model does not score its prompt; leave out echo or logprobs", {
        param: "echo",
      });
    this.#running += 1;
    let started: Started | undefined;
    try {
      started = await this.#start(job, usage, signal);
      const from = started;
      const runs = Array.from({ length: job.choices }, (_, choice) =>
        this.#runChoice(job, choice, from, sink, usage, signal),
      );
      const failure = (await Promise.allSettled(runs)).find((result) => result.status === "rejected");
      if (failure) throw failure.reason;
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      if (started) this.#forget(started.memory);
      this.#running -= 1;
    }
  }

  /** Reads the prompt, pictures included. */
  async #start(job: GenerationJob, usage: RunningUsage, signal: AbortSignal): Promise<Started> {
    const { graphs } = this.#parts;
    const { prompt, features } = await this.#withPictures(job, signal);
    const space = this.contextLength - prompt.length;
    if (space < 1)
      throw new EngineRefusal(
        "context_length",
        `this model's context is ${this.contextLength} tokens, but the prompt has ${prompt.length}, pictures included; shorten it or send smaller pictures`,
      );
    let memory = graphs.nothing;
    let scores: Float32Array = new Float32Array();
    let shown = 0;
    try {
      for (let at = 0; at < prompt.length; ) {
        signal.throwIfAborted();
        // The last token by itself: its scores are the first answer.
        const end = at === prompt.length - 1 ? prompt.length : Math.min(at + promptStep, prompt.length - 1);
        const tokens = prompt.slice(at, end);
        const embeds = await graphs.embed(tokens);
        for (const [i, token] of tokens.entries()) {
          if (token !== this.#parts.imageToken || features.length === 0) continue;
          embeds.set(features.subarray(shown, shown + graphs.width), i * graphs.width);
          shown += graphs.width;
        }
        ({ memory, scores } = await this.#step(embeds, memory, end === prompt.length));
        at = end;
        usage.inputTokens = at;
      }
    } catch (error) {
      this.#forget(memory);
      throw error;
    }
    return { memory, scores, prompt };
  }

  async #withPictures(job: GenerationJob, signal: AbortSignal) {
    const { graphs, imageToken } = this.#parts;
    const features: Float32Array[] = [];
    const prompt = await this.#withPlaces(job, async (tiles, tokens) => {
      const found = await graphs.features(tiles, signal);
      const expected = tokens.filter((token) => token === imageToken).length;
      if (found.length !== expected * graphs.width)
        throw new Error(`the encoder made ${found.length / graphs.width} features of a picture, not ${expected}`);
      features.push(found);
    });
    return { prompt, features: joined(features) };
  }

  /** Returns the prompt with a token in the place of every feature. `read` receives one picture at a time: tiles are large. */
  async #withPlaces(
    { prompt, images }: Pick<GenerationJob, "prompt" | "images">,
    read: (tiles: Tiles, tokens: readonly number[]) => Promise<void>,
  ): Promise<readonly number[]> {
    const { tiler, tokenizer, imageToken, imageTokens } = this.#parts;
    const places = prompt.filter((token) => token === imageToken).length;
    if (places !== images.length && !(images.length > 0 && places === 0))
      throw new EngineRefusal(
        "prompt",
        `the prompt has ${places} places for pictures and the request ${images.length} pictures; write ${imageTokens.image} once for each`,
        { param: "prompt" },
      );
    const expansions: (readonly number[])[] = [];
    for (const { bytes, isCoarse, param } of images) {
      const tiles = await tiler.tiles(bytes, isCoarse).catch((error: unknown) => {
        if (!(error instanceof PictureError)) throw error;
        throw new EngineRefusal("prompt", `${param}: the picture cannot be used: ${error.message}`, {
          param,
          cause: error,
        });
      });
      const tokens = tokenizer.encode(imageText(tiles, imageTokens));
      await read(tiles, tokens);
      expansions.push(tokens);
    }
    // Pictures without a position in the prompt precede the text.
    const given = places === 0 ? [...images.map(() => imageToken), ...prompt] : prompt;
    return placeImages(given, imageToken, expansions);
  }

  async #runChoice(
    job: GenerationJob,
    choice: number,
    { memory: first, scores: firstScores, prompt }: Started,
    sink: ChoiceSink,
    usage: RunningUsage,
    signal: AbortSignal,
  ): Promise<void> {
    const { graphs, tokenizer, ends } = this.#parts;
    const maxTokens = Math.min(job.maxTokens ?? defaultMaxTokens, this.contextLength - prompt.length);
    const random = seededRandom(seedOf(job.sampling.seed, choice, Math.random));
    const generated = new Map<number, number>();
    const seen = { prompt: new Set(prompt), generated };
    const tail = (tokens: readonly number[], previous: readonly number[]) =>
      tokenizer.decode([...previous, ...tokens]).slice(tokenizer.decode(previous).length);
    const text = new ChoiceText(new PieceDecoder(tail, []), job.stops);
    const isStop = new Set(job.stopTokenIds);
    let [memory, scores] = [first, firstScores];
    let unsent = 0;
    const send = (piece: Piece) => {
      const tokens = unsent;
      unsent = 0;
      return sink.piece(choice, { ...piece, tokens });
    };
    const finish = (reason: "stop" | "length") => {
      const rest = text.end();
      if (rest.text !== "" || rest.logprobs.length > 0) void send(rest);
      sink.finish(choice, reason);
    };
    try {
      for (let count = 1; ; count += 1) {
        if (signal.aborted) return;
        const token = sampleToken(scores, job.sampling, seen, random);
        usage.outputTokens += 1;
        this.#tokensGenerated += 1;
        unsent += 1;
        generated.set(token, (generated.get(token) ?? 0) + 1);
        const isEnd = ends.has(token);
        if (isStop.has(token) || (isEnd && !job.ignoreEos)) return finish("stop");
        const score = job.topLogprobs === undefined ? undefined : logprobsOf(scores, token, job.topLogprobs);
        const { piece, stop } = isEnd
          ? { piece: { text: "", logprobs: [] }, stop: undefined }
          : text.push(token, score);
        if (piece.text !== "" || piece.logprobs.length > 0) await send(piece);
        if (stop !== undefined) return sink.finish(choice, "stop", stop);
        if (count >= maxTokens) return finish("length");
        // Answers that need no waiting must not keep others from theirs.
        await turn();
        if (signal.aborted) return;
        const before = memory;
        ({ memory, scores } = await this.#step(await graphs.embed([token]), before, true, before !== first));
      }
    } finally {
      if (memory !== first) this.#forget(memory);
    }
  }

  /** `isLast`: the given memory is not used again. */
  async #step(embeds: Float32Array, memory: Memory, wantsScores: boolean, isLast = true) {
    const startedAt = performance.now();
    const made = await this.#parts.graphs.read(embeds, memory, wantsScores);
    this.#facts.observe({ kind: "ran", items: 1, ms: performance.now() - startedAt });
    this.#held += made.memory.length;
    if (isLast) this.#forget(memory);
    return made;
  }

  #forget(memory: Memory): void {
    this.#held -= memory.length;
    this.#parts.graphs.forget(memory);
  }

  load() {
    return {
      running: Math.min(this.#running, this.maxBatchSize),
      waiting: Math.max(0, this.#running - this.maxBatchSize),
      tokensGenerated: this.#tokensGenerated,
      kvUsageRatio: Math.min(1, this.#held / (this.contextLength * this.maxBatchSize)),
    };
  }

  close(): Promise<void> {
    return this.#facts.close();
  }
}
