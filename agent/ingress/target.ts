// One instance as the data plane sees it: its gate, its connections, what runs on it.
import { Pool } from "undici";
import type { DeploymentId, InstanceId } from "../../proto/ids.ts";
import { engineIsIdle } from "./engine-work.ts";
import { Gate } from "./gate.ts";
import type { Limits } from "./limits.ts";
import { TokenRate } from "./token-rate.ts";

export interface IngressTarget {
  readonly instanceId: InstanceId;
  readonly deployId: DeploymentId;
  /** Origin of the engine; a path in it is put before every engine path. */
  readonly origin: string;
  readonly maxBatchSize: number;
  readonly ready: boolean;
  readonly draining: boolean;
  /** Origin of its dashboard, where it has one. */
  readonly dashboard?: string;
}

/** A request in flight, for shutdown. */
export interface Cuttable {
  /** Tokens of its prompt, estimated. */
  readonly promptTokens: number;
  /** Ends it now with reason `drained`. */
  cut(): void;
}

export class Target {
  readonly gate: Gate;
  readonly rate: TokenRate;
  readonly running = new Set<Cuttable>();
  /** Requests that ended, however. */
  finished = 0;
  /** Requests for which there was no place. */
  turnedAway = 0;
  /** Typical output of one sequence here, for the gate's estimate. */
  typicalOutput = 256;
  spec: IngressTarget;
  pool: Pool;
  prefix: string;
  #marked = false;
  #idle: (() => void)[] = [];

  constructor(spec: IngressTarget, limits: Limits, clock: () => number) {
    this.spec = spec;
    this.gate = new Gate({
      permits: spec.maxBatchSize,
      clock,
      maxWaitMs: limits.maxWaitMs,
      ...(limits.queueLimit === undefined ? {} : { queueLimit: limits.queueLimit }),
    });
    this.rate = new TokenRate(clock);
    this.pool = connect(spec.origin);
    this.prefix = prefixOf(spec.origin);
    if (spec.ready) this.#warm();
  }

  get isDraining(): boolean {
    return this.#marked || this.spec.draining;
  }

  update(spec: IngressTarget): void {
    const before = this.spec;
    this.spec = spec;
    if (spec.origin !== before.origin) {
      // Another process behind the same name: what runs on the old one ends there.
      void this.pool.close();
      this.pool = connect(spec.origin);
      this.prefix = prefixOf(spec.origin);
      this.#marked = false;
    }
    if (spec.maxBatchSize !== before.maxBatchSize) this.gate.resize(spec.maxBatchSize);
    if (spec.ready && (!before.ready || spec.origin !== before.origin)) this.#warm();
    if (spec.draining) this.gate.drain();
  }

  markDraining(): void {
    this.#marked = true;
    this.gate.drain();
  }

  started(request: Cuttable): void {
    this.running.add(request);
  }

  ended(request: Cuttable, outputTokens: number): void {
    if (!this.running.delete(request)) return;
    this.finished += 1;
    if (outputTokens > 0) this.typicalOutput += (outputTokens - this.typicalOutput) * 0.1;
    if (this.running.size > 0) return;
    for (const idle of this.#idle.splice(0)) idle();
  }

  /** Of all that runs. */
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

  /** True once nothing runs here and the engine, where it can tell, has ended it as well; false at the deadline. */
  async quiet(deadlineMs: number, signal?: AbortSignal): Promise<boolean> {
    const until = performance.now() + deadlineMs;
    if (!(await this.drained(deadlineMs, signal))) return false;
    return await engineIsIdle(this.pool, `${this.prefix}/health`, until - performance.now(), signal);
  }

  /** Requests on it finish first. */
  close(): void {
    this.gate.drain();
    void this.pool.close();
  }

  /** The first request must not pay for the connection. */
  #warm(): void {
    this.pool.request({ method: "GET", path: `${this.prefix}/health`, headersTimeout: 5_000 }).then(
      (answer) => answer.body.dump(),
      () => {},
    );
  }
}

function connect(origin: string): Pool {
  // First byte and gaps are bounded by our own deadlines: undici cannot tell a long prefill from silence.
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
