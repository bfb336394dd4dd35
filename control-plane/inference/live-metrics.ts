// Throughput of the last minute over all tenants, for GET /v1/metrics/live. Buckets of one second keep its cost constant.
import type { Trace } from "./completion.ts";

export interface LiveFigures {
  readonly tokensPerSecond: number | null;
  /** Seconds, mean. */
  readonly timeToFirstToken: number | null;
  readonly requestsPerSecond: number | null;
}

interface Bucket {
  second: number;
  requests: number;
  tokens: number;
  firstByteCount: number;
  firstByteSumMs: number;
}

const windowSeconds = 60;

export class LiveMetrics {
  readonly #clock: () => number;
  readonly #buckets: Bucket[];

  constructor(clock: () => number = () => performance.now()) {
    this.#clock = clock;
    this.#buckets = Array.from({ length: windowSeconds }, () => ({ ...empty }));
  }

  /** Counts a request that ended with a response. */
  note(trace: Pick<Trace, "startedMs" | "firstByteAtMs" | "usage">): void {
    const second = Math.floor(this.#clock() / 1000);
    const bucket = this.#buckets[second % windowSeconds] as Bucket;
    if (bucket.second !== second) Object.assign(bucket, empty, { second });
    bucket.requests += 1;
    bucket.tokens += trace.usage?.output ?? 0;
    if (trace.firstByteAtMs > 0) {
      bucket.firstByteCount += 1;
      bucket.firstByteSumMs += trace.firstByteAtMs - trace.startedMs;
    }
  }

  /** Null where the window has no measurement. */
  read(): LiveFigures {
    const oldest = Math.floor(this.#clock() / 1000) - windowSeconds;
    const sum = { ...empty };
    for (const bucket of this.#buckets) {
      if (bucket.second <= oldest) continue;
      sum.requests += bucket.requests;
      sum.tokens += bucket.tokens;
      sum.firstByteCount += bucket.firstByteCount;
      sum.firstByteSumMs += bucket.firstByteSumMs;
    }
    if (sum.requests === 0) return { tokensPerSecond: null, timeToFirstToken: null, requestsPerSecond: null };
    return {
      tokensPerSecond: sum.tokens / windowSeconds,
      timeToFirstToken: sum.firstByteCount === 0 ? null : sum.firstByteSumMs / sum.firstByteCount / 1000,
      requestsPerSecond: sum.requests / windowSeconds,
    };
  }
}

const empty: Bucket = { second: -windowSeconds, requests: 0, tokens: 0, firstByteCount: 0, firstByteSumMs: 0 };
