// Data plane state of one instance: its gate, its connections and its running requests.
import { Pool } from "undici";
import { authorizationFor } from "../../proto/bearer-secret.ts";
import { type Slot, SlotList } from "../../proto/slot-list.ts";
import type { RouteTarget } from "../reconcile/ports.ts";
import { engineIsIdle, PromptCounter } from "./engine-usage.ts";
import { Gate } from "./gate.ts";
import type { Limits } from "./limits.ts";
import { RecentTimes } from "./recent-times.ts";
import type { SentRequest, StoppingRequests } from "./stopping-requests.ts";

/**
 * Long recordings use permits for seconds of audio instead of sequences of the batch: they run for minutes, in segments between
 * which the engine serves others, so they must not block short requests. A recording counts as at most half an hour, and an
 * account can hold at most half of the seconds.
 */
export const longAudio = {
  fromMs: 300_000,
  seconds: 7_200,
  maxSecondsEach: 1_800,
  maxSecondsOfAccount: 3_600,
} as const;

export interface Cuttable extends SentRequest {
  /** Tokens of its prompt, estimated. */
  readonly promptTokens: number;
  /** Set while it runs. Changed by the target only. */
  running?: Slot<Cuttable> | undefined;
  /** Ends it now with reason `drained`. */
  cut(): void;
}

/** Limits of the unanswered requests that are kept in case their engine is found dead or stuck. */
const [maxUnanswered, maxUnansweredBytes, unansweredMs] = [64, 8 * 1024 * 1024, 5 * 60_000];

export class Target {
  readonly gate: Gate;
  readonly longAudioGate: Gate;
  readonly rate: TokenRate;
  readonly prompts = new PromptCounter();
  /** Time in the queue. */
  readonly queueTimes: RecentTimes;
  /** Time from arrival to first token of streamed requests. */
  readonly firstTokenTimes: RecentTimes;
  readonly running = new SlotList<Cuttable>();
  /** Shared by the instances of one deployment. */
  readonly stopping: StoppingRequests;
  /** Requests that ended without a reply from the engine, which may still work on them. */
  readonly #unanswered: (SentRequest & { readonly atMs: number })[] = [];
  #unansweredBytes = 0;
  /** Requests in flight when the engine was found dead. They fail later and must not be counted again. */
  readonly #counted = new WeakSet<Cuttable>();
  readonly #clock: () => number;
  readonly #onIdle: () => void;
  finished = 0;
  turnedAway = 0;
  /** Typical output of one sequence here, for the gate's estimate. */
  typicalOutput = 256;
  /** A path in its origin is a prefix of every engine path. */
  spec: RouteTarget;
  pool: Pool;
  prefix: string;
  #marked = false;
  /** Its engine sleeps or is about to: new requests are refused as not ready. */
  #resting = false;
  #usedMs: number | undefined;
  #idle: (() => void)[] = [];

  constructor(
    spec: RouteTarget,
    limits: Limits,
    clock: () => number,
    stopping: StoppingRequests,
    onIdle: () => void = () => {},
  ) {
    this.#onIdle = onIdle;
    this.spec = spec;
    this.#clock = clock;
    this.stopping = stopping;
    const waiting = {
      clock,
      maxWaitMs: limits.maxWaitMs,
      ...(limits.queueLimit === undefined ? {} : { queueLimit: limits.queueLimit }),
    };
    this.gate = new Gate({ ...waiting, permits: spec.maxBatchSize });
    const { seconds, maxSecondsEach, maxSecondsOfAccount } = longAudio;
    this.longAudioGate = new Gate({
      ...waiting,
      permits: seconds,
      maxPermitsEach: maxSecondsEach,
      maxPermitsOfAccount: maxSecondsOfAccount,
    });
    this.rate = new TokenRate(clock);
    this.queueTimes = new RecentTimes(clock);
    this.firstTokenTimes = new RecentTimes(clock);
    this.pool = connect(spec.origin);
    this.prefix = prefixOf(spec.origin);
    if (spec.ready) this.#warm();
  }

  get waiting(): number {
    return this.gate.waiting + this.longAudioGate.waiting;
  }

  get isDraining(): boolean {
    return this.#marked || this.spec.draining;
  }

  get isReady(): boolean {
    return this.spec.ready && !this.#resting;
  }

  /** Time since the last request began or ended; undefined: there was none. */
  get unusedMs(): number | undefined {
    return this.#usedMs === undefined ? undefined : this.#clock() - this.#usedMs;
  }

  /** False, and no change, while a request runs or waits. */
  rest(): boolean {
    if (this.running.size > 0 || this.waiting > 0) return false;
    this.#resting = true;
    return true;
  }

  resume(): void {
    this.#resting = false;
  }

  update(spec: RouteTarget): void {
    const before = this.spec;
    this.spec = spec;
    if (spec.origin !== before.origin) {
      // Another process of the same instance: running requests finish on the old one.
      void this.pool.close();
      this.pool = connect(spec.origin);
      this.prefix = prefixOf(spec.origin);
      this.#marked = false;
      this.#resting = false;
    }
    if (spec.maxBatchSize !== before.maxBatchSize) this.gate.resize(spec.maxBatchSize);
    if (spec.ready && (!before.ready || spec.origin !== before.origin)) this.#warm();
    if (spec.draining) this.#drainGates();
  }

  markDraining(): void {
    this.#marked = true;
    this.#drainGates();
  }

  started(request: Cuttable): void {
    request.running = this.running.add(request);
    this.#usedMs = this.#clock();
  }

  ended(request: Cuttable, outputTokens: number): void {
    if (!request.running) return;
    this.running.delete(request.running);
    request.running = undefined;
    this.finished += 1;
    this.#usedMs = this.#clock();
    if (outputTokens > 0) this.typicalOutput += (outputTokens - this.typicalOutput) * 0.1;
    if (this.running.size > 0) return;
    for (const idle of this.#idle.splice(0)) idle();
    this.#onIdle();
  }

  /** The engine received this request and did not reply. */
  unanswered(request: Cuttable): void {
    if (this.#counted.has(request)) return;
    const { account, body } = request;
    this.#unanswered.push({ account, body, atMs: this.#clock() });
    this.#unansweredBytes += body.length;
    while (this.#unanswered.length > maxUnanswered || this.#unansweredBytes > maxUnansweredBytes)
      this.#unansweredBytes -= this.#unanswered.shift()?.body.length ?? 0;
  }

  /** The engine died or is ended because it is stuck. Returns as `StoppingRequests.serverEnded`. */
  serverEnded(): number {
    const since = this.#clock() - unansweredMs;
    const left = this.#unanswered.splice(0).filter(({ atMs }) => atMs >= since);
    this.#unansweredBytes = 0;
    for (const request of this.running) this.#counted.add(request);
    return this.stopping.serverEnded([...this.running, ...left]);
  }

  promptTokens(): number {
    let sum = 0;
    for (const request of this.running) sum += request.promptTokens;
    return sum;
  }

  /** True once nothing runs; false at the deadline or when the signal aborts. */
  drained(deadlineMs: number, signal?: AbortSignal): Promise<boolean> {
    if (this.running.size === 0) return Promise.resolve(true);
    return new Promise((resolve) => {
      const done = (isIdle: boolean) => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", giveUp);
        this.#idle = this.#idle.filter((listener) => listener !== idle);
        resolve(isIdle);
      };
      const idle = () => done(true);
      const giveUp = () => done(false);
      const timer = setTimeout(giveUp, deadlineMs);
      signal?.addEventListener("abort", giveUp, { once: true });
      if (signal?.aborted) return giveUp();
      this.#idle.push(idle);
    });
  }

  /** True once nothing runs here, nor in the engine if it reports that; false at the deadline. */
  async quiet(deadlineMs: number, signal?: AbortSignal): Promise<boolean> {
    const until = performance.now() + deadlineMs;
    if (!(await this.drained(deadlineMs, signal))) return false;
    const path = `${this.prefix}/health`;
    return await engineIsIdle(this.pool, path, authorizationFor(this.spec), until - performance.now(), signal);
  }

  /** The instance left the set. Running requests finish first, and their usage is read from the engine. */
  async close(): Promise<void> {
    this.#drainGates();
    await this.drained(24 * 3_600_000);
    // Rejects after `Ingress.close`, which destroys the pool.
    await this.pool.close().catch(() => {});
  }

  #drainGates(): void {
    this.gate.drain();
    this.longAudioGate.drain();
  }

  /** The first request must not pay for the connection. */
  #warm(): void {
    const headers = authorizationFor(this.spec);
    this.pool.request({ method: "GET", path: `${this.prefix}/health`, headers, headersTimeout: 5_000 }).then(
      (answer) => answer.body.dump(),
      () => {},
    );
  }
}

function connect(origin: string): Pool {
  // First byte and gaps are bounded by our own deadlines: undici cannot distinguish a long prefill from a dead engine.
  return new Pool(new URL(origin).origin, {
    connections: null,
    pipelining: 1,
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: 30_000,
    connect: { timeout: 5_000 },
  });
}

/** `http://host/openai/v1` serves `/openai/v1/...`: engine paths begin with /v1 already. */
function prefixOf(origin: string): string {
  return new URL(origin).pathname.replace(/\/+$/, "").replace(/\/v1$/, "");
}

const seconds = 10;

export class TokenRate {
  readonly #clock: () => number;
  readonly #buckets = new Float64Array(seconds);
  #second = 0;
  total = 0;

  constructor(clock: () => number) {
    this.#clock = clock;
  }

  add(tokens: number): void {
    this.#turn();
    this.total += tokens;
    const at = this.#second % seconds;
    this.#buckets[at] = (this.#buckets[at] as number) + tokens;
  }

  perSecond(): number {
    this.#turn();
    return this.#buckets.reduce((sum, tokens) => sum + tokens, 0) / seconds;
  }

  #turn(): void {
    const now = Math.floor(this.#clock() / 1000);
    const passed = Math.min(seconds, now - this.#second);
    for (let i = 0; i < passed; i++) this.#buckets[(now - i) % seconds] = 0;
    if (passed > 0) this.#second = now;
  }
}
