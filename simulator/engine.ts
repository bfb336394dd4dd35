// An engine with continuous batches in virtual time. Each step evaluates some tokens of prompts and gives each running sequence one
// token. While nothing waits, all steps until the next sequence ends are one event.
import type { EngineProfile } from "./profile.ts";
import { type PromptCache, type Segment, SegmentCache } from "./segment-cache.ts";
import { SlotCache } from "./slot-cache.ts";
import type { Actor, Timeline } from "./timeline.ts";

export interface EngineRequest {
  readonly segments: readonly Segment[];
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** Set by the engine when it begins with the prompt. */
  cachedTokens: number;
  /** The engine's own: prompt tokens to evaluate, and how many of them the current step evaluates. */
  left: number;
  taken: number;
  sawFirstToken(nowMs: number): void;
  finished(nowMs: number): void;
}

/** Remainders of floating point. */
const tolerance = 1e-6;

export class Engine implements Actor {
  readonly #profile: EngineProfile;
  readonly #timeline: Timeline;
  readonly #id: number;
  readonly #cache: PromptCache;
  readonly #evaluatesTogether: boolean;
  /** Behind the fixed time of a request, in the order of their arrival. */
  readonly #arriving: { readonly request: EngineRequest; readonly atMs: number }[] = [];
  readonly #waiting: EngineRequest[] = [];
  #firstWaiting = 0;
  /** Those that are evaluated. */
  readonly #prompts: EngineRequest[] = [];
  /** Tokens that a sequence would have which ran from the start. */
  #level = 0;
  /** A heap by the level at which each sequence ends. */
  readonly #running: EngineRequest[] = [];
  readonly #ends: number[] = [];
  #context = 0;
  #startedMs = 0;
  #stepMs = 0;
  /** Steps of the current event; 0: the engine is idle. */
  #steps = 0;
  /** Between two steps: a request that ends may let another one enter. */
  #isBetween = false;
  /** Time in which anything ran. */
  busyMs = 0;

  constructor(profile: EngineProfile, timeline: Timeline) {
    this.#profile = profile;
    this.#timeline = timeline;
    this.#id = timeline.add(this);
    this.#cache =
      profile.cache === "slots" ? new SlotCache(profile.maxBatchSize) : new SegmentCache(profile.cacheTokens);
    this.#evaluatesTogether = profile.prompts === "together";
  }

  enter(request: EngineRequest): void {
    const { nowMs } = this.#timeline;
    const { requestMs } = this.#profile;
    if (requestMs > 0) {
      this.#arriving.push({ request, atMs: nowMs + requestMs });
      if (this.#arriving.length === 1) this.#schedule();
      return;
    }
    this.#waiting.push(request);
    this.#interrupt(nowMs);
  }

  /** Prompt tokens that a request with these segments would take from the cache now. */
  cachedOf(segments: readonly Segment[]): number {
    return this.#cache.cachedOf(segments);
  }

  /** Ends everything without a word to the requests. */
  stop(): void {
    this.#arriving.length = 0;
    this.#waiting.length = 0;
    this.#firstWaiting = 0;
    this.#prompts.length = 0;
    this.#running.length = 0;
    this.#ends.length = 0;
    this.#steps = 0;
    this.#timeline.set(this.#id, Number.POSITIVE_INFINITY);
  }

  act(nowMs: number): void {
    if (this.#steps > 0 && this.#endMs() <= nowMs + tolerance) {
      this.#finishSteps(this.#steps, nowMs);
      this.#begin(nowMs);
    }
    while (this.#arriving.length > 0 && (this.#arriving[0] as { atMs: number }).atMs <= nowMs + tolerance) {
      this.#waiting.push((this.#arriving.shift() as { request: EngineRequest }).request);
      this.#interrupt(nowMs);
    }
    this.#schedule();
  }

  #endMs(): number {
    return this.#startedMs + this.#steps * this.#stepMs;
  }

  #schedule(): void {
    const arrivesMs = this.#arriving[0]?.atMs ?? Number.POSITIVE_INFINITY;
    const endMs = this.#steps === 0 ? Number.POSITIVE_INFINITY : this.#endMs();
    this.#timeline.set(this.#id, Math.min(arrivesMs, endMs));
  }

  // The step that runs now is the last one without the new request.
  #interrupt(nowMs: number): void {
    if (this.#isBetween) return;
    if (this.#steps === 0) this.#begin(nowMs);
    else if (this.#steps > 1) {
      const passed = Math.min(this.#steps - 1, Math.floor((nowMs - this.#startedMs) / this.#stepMs + tolerance));
      this.#steps -= passed;
      this.#finishSteps(passed, nowMs);
      this.#startedMs += passed * this.#stepMs;
      if (this.#startedMs >= nowMs - tolerance) this.#begin(nowMs);
      else this.#steps = 1;
    }
    this.#schedule();
  }

  #finishSteps(count: number, nowMs: number): void {
    if (count === 0) return;
    this.#isBetween = true;
    this.busyMs += count * this.#stepMs;
    if (this.#running.length > 0) this.#level += count;
    for (let i = 0; i < this.#prompts.length; ) {
      const request = this.#prompts[i] as EngineRequest;
      request.left -= request.taken;
      request.taken = 0;
      if (request.left > tolerance) {
        i += 1;
        continue;
      }
      if (i === this.#prompts.length - 1) this.#prompts.pop();
      else this.#prompts.splice(i, 1);
      this.#context += contextOf(request);
      this.#push(this.#level + request.outputTokens - 1, request);
      request.sawFirstToken(nowMs);
    }
    while (this.#running.length > 0 && (this.#ends[0] as number) <= this.#level + tolerance) {
      const ended = this.#pop();
      this.#cache.leave(ended.segments);
      this.#context -= contextOf(ended);
      ended.finished(nowMs);
    }
    this.#isBetween = false;
  }

  #begin(nowMs: number): void {
    const { stepMs, stepMsPerSequence, stepMsPerKiloContext } = this.#profile;
    if (this.#evaluatesTogether) this.#shareStep();
    else this.#fillStep();
    let promptMs = 0;
    let sequences = this.#running.length;
    let context = this.#context;
    for (const { promptTokens, left, taken } of this.#prompts) {
      promptMs += this.#evaluationMs(promptTokens - left, taken);
      if (left - taken > tolerance) continue;
      sequences += 1;
      context += promptTokens;
    }
    this.#startedMs = nowMs;
    this.#stepMs =
      promptMs +
      (sequences === 0 ? 0 : stepMs + stepMsPerSequence * sequences + (stepMsPerKiloContext * context) / 1000);
    if (this.#prompts.length > 0) this.#steps = 1;
    else this.#steps = this.#running.length === 0 ? 0 : Math.max(1, Math.ceil((this.#ends[0] as number) - this.#level));
  }

  /** First come, first served, up to the tokens of a step. */
  #fillStep(): void {
    let budget = this.#chunkTokens(1);
    for (let i = 0; budget > tolerance; i++) {
      if (i === this.#prompts.length && !this.#admitNext()) return;
      const prompt = this.#prompts[i] as EngineRequest;
      prompt.taken = Math.min(prompt.left, budget);
      budget -= prompt.taken;
    }
  }

  /** An equal part of each prompt. */
  #shareStep(): void {
    while (this.#admitNext());
    const chunk = this.#chunkTokens(this.#prompts.length);
    for (const prompt of this.#prompts) prompt.taken = Math.min(prompt.left, chunk);
  }

  /** Tokens of each of so many prompts in the next step. */
  #chunkTokens(prompts: number): number {
    const { chunkTokens, minChunkTokens, maxStepMs, prefillTokensPerSecond } = this.#profile;
    if (maxStepMs === 0) return chunkTokens;
    const { stepMs, stepMsPerSequence } = this.#profile;
    const running = this.#running.length;
    const leftMs = maxStepMs - (running === 0 ? 0 : stepMs + stepMsPerSequence * running);
    const tokens = (leftMs * prefillTokensPerSecond) / 1000 / Math.max(1, prompts);
    return Math.min(chunkTokens, Math.max(minChunkTokens, Math.round(tokens)));
  }

  /** False if no request waits, or none fits. */
  #admitNext(): boolean {
    const request = this.#waiting[this.#firstWaiting];
    if (!request) return false;
    const cached = this.#cache.enter(request.segments, request.outputTokens);
    // Waits for space: a sequence that ends begins it.
    if (cached === undefined) return false;
    // An array that is set to no length would allocate its memory again.
    if (this.#waiting.length === 1) this.#waiting.pop();
    else if (++this.#firstWaiting === this.#waiting.length) {
      this.#waiting.length = 0;
      this.#firstWaiting = 0;
    }
    // The last token of a prompt is always evaluated.
    request.cachedTokens = Math.min(cached, request.promptTokens - 1);
    request.left = request.promptTokens - request.cachedTokens;
    request.taken = 0;
    this.#prompts.push(request);
    return true;
  }

  /** Duration of the evaluation of `tokens` behind `before` others. */
  #evaluationMs(before: number, tokens: number): number {
    const { prefillTokensPerSecond, prefillSlowdownPerKiloContext } = this.#profile;
    const slowdown = 1 + (prefillSlowdownPerKiloContext * (before + tokens / 2)) / 1000;
    return (tokens / prefillTokensPerSecond) * 1000 * slowdown;
  }

  #push(end: number, request: EngineRequest): void {
    let at = this.#running.length;
    this.#running.push(request);
    this.#ends.push(end);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if ((this.#ends[parent] as number) <= end) break;
      this.#ends[at] = this.#ends[parent] as number;
      this.#running[at] = this.#running[parent] as EngineRequest;
      at = parent;
    }
    this.#ends[at] = end;
    this.#running[at] = request;
  }

  #pop(): EngineRequest {
    const top = this.#running[0] as EngineRequest;
    const end = this.#ends.pop() as number;
    const request = this.#running.pop() as EngineRequest;
    const size = this.#running.length;
    if (size === 0) return top;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= size) break;
      if (child + 1 < size && (this.#ends[child + 1] as number) < (this.#ends[child] as number)) child += 1;
      if ((this.#ends[child] as number) >= end) break;
      this.#ends[at] = this.#ends[child] as number;
      this.#running[at] = this.#running[child] as EngineRequest;
      at = child;
    }
    this.#ends[at] = end;
    this.#running[at] = request;
    return top;
  }
}

/** Mean over its steps. */
const contextOf = ({ promptTokens, outputTokens }: EngineRequest): number => promptTokens + outputTokens / 2;
