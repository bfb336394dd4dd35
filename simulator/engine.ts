// An engine with continuous batches in virtual time. Each step evaluates up to a chunk of prompts, first come first served, and gives
// each running sequence one token. Between two events its speeds are constant, so it computes the next event instead of steps.
import type { EngineProfile } from "./profile.ts";
import { type Segment, SegmentCache } from "./segment-cache.ts";
import type { Actor, Timeline } from "./timeline.ts";

export interface EngineRequest {
  readonly segments: readonly Segment[];
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** Set by the engine when it begins with the prompt. */
  cachedTokens: number;
  sawFirstToken(nowMs: number): void;
  finished(nowMs: number): void;
}

/** Remainders of floating point. */
const tolerance = 1e-6;

export class Engine implements Actor {
  readonly #profile: EngineProfile;
  readonly #timeline: Timeline;
  readonly #id: number;
  readonly #cache: SegmentCache;
  readonly #waiting: EngineRequest[] = [];
  #firstWaiting = 0;
  #current: EngineRequest | undefined;
  #promptLeft = 0;
  /** Tokens that a sequence would have which ran from the start. */
  #level = 0;
  #lastMs = 0;
  /** A heap by the level at which each sequence ends. */
  readonly #running: EngineRequest[] = [];
  readonly #ends: number[] = [];
  #context = 0;
  /** Time in which anything ran. */
  busyMs = 0;

  constructor(profile: EngineProfile, timeline: Timeline) {
    this.#profile = profile;
    this.#timeline = timeline;
    this.#id = timeline.add(this);
    this.#cache = new SegmentCache(profile.cacheTokens);
  }

  enter(request: EngineRequest): void {
    this.#advance(this.#timeline.nowMs);
    this.#waiting.push(request);
    this.#beginNext();
    this.#schedule();
  }

  /** Ends everything without a word to the requests. */
  stop(): readonly EngineRequest[] {
    const all = [
      ...this.#running,
      ...(this.#current ? [this.#current] : []),
      ...this.#waiting.slice(this.#firstWaiting),
    ];
    this.#running.length = 0;
    this.#ends.length = 0;
    this.#current = undefined;
    this.#firstWaiting = this.#waiting.length;
    this.#timeline.set(this.#id, Number.POSITIVE_INFINITY);
    return all;
  }

  act(nowMs: number): void {
    this.#advance(nowMs);
    const done = this.#current;
    if (done && this.#promptLeft <= tolerance) {
      this.#current = undefined;
      this.#context += done.promptTokens;
      // The first token leaves at the end of its step.
      this.#push(this.#level + done.outputTokens, done);
      done.sawFirstToken(nowMs + this.#stepMs());
    }
    while (this.#running.length > 0 && (this.#ends[0] as number) <= this.#level + tolerance) {
      const ended = this.#pop();
      this.#cache.leave(ended.segments);
      this.#context -= ended.promptTokens;
      ended.finished(nowMs);
    }
    this.#beginNext();
    this.#schedule();
  }

  #beginNext(): void {
    if (this.#current) return;
    const next = this.#waiting[this.#firstWaiting];
    if (!next) return;
    const cached = this.#cache.enter(next.segments, next.outputTokens);
    // Waits for space: a sequence that ends begins it.
    if (cached === undefined) return;
    this.#firstWaiting += 1;
    if (this.#firstWaiting === this.#waiting.length) {
      this.#waiting.length = 0;
      this.#firstWaiting = 0;
    }
    // The last token of a prompt is always evaluated.
    next.cachedTokens = Math.min(cached, next.promptTokens - 1);
    this.#current = next;
    this.#promptLeft = next.promptTokens - next.cachedTokens;
  }

  #stepMs(): number {
    const { stepMs, stepMsPerSequence, stepMsPerKiloContext, chunkTokens, prefillTokensPerSecond } = this.#profile;
    const running = this.#running.length;
    const decode =
      running === 0 ? 0 : stepMs + stepMsPerSequence * running + (stepMsPerKiloContext * this.#context) / 1000;
    return this.#current ? decode + (chunkTokens / prefillTokensPerSecond) * 1000 : decode;
  }

  #advance(nowMs: number): void {
    const passedMs = nowMs - this.#lastMs;
    this.#lastMs = nowMs;
    const stepMs = this.#stepMs();
    if (stepMs === 0 || passedMs <= 0) return;
    this.busyMs += passedMs;
    const steps = passedMs / stepMs;
    if (this.#running.length > 0) this.#level += steps;
    if (this.#current) this.#promptLeft -= steps * this.#profile.chunkTokens;
  }

  #schedule(): void {
    const stepMs = this.#stepMs();
    let steps = Number.POSITIVE_INFINITY;
    if (this.#current) steps = Math.max(0, this.#promptLeft) / this.#profile.chunkTokens;
    if (this.#running.length > 0) steps = Math.min(steps, Math.max(0, (this.#ends[0] as number) - this.#level));
    this.#timeline.set(this.#id, stepMs === 0 ? Number.POSITIVE_INFINITY : this.#lastMs + steps * stepMs);
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
