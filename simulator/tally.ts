// What a run measured.
import { Histogram } from "./histogram.ts";

export interface Served {
  readonly account: string;
  readonly ttftMs: number;
  readonly tokenMs: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
  readonly endMs: number;
}

class AccountTally {
  readonly ttftMs = new Histogram();
  tokens = 0;
}

/** State of an autoscaled fleet at one time. */
export interface FleetSample {
  readonly atMs: number;
  /** Requests in gates and engines. */
  readonly load: number;
  readonly instances: number;
}

export class Tally {
  /** Requests that end before are not counted. */
  readonly #fromMs: number;
  readonly ttftMs = new Histogram();
  /** Mean time between the tokens of each request. */
  readonly tokenMs = new Histogram();
  readonly accounts = new Map<string, AccountTally>();
  readonly samples: FleetSample[] = [];
  turns = 0;
  refused = 0;
  broken = 0;
  promptTokens = 0;
  cachedTokens = 0;
  outputTokens = 0;
  gpuMs = 0;
  busyGpuMs = 0;

  constructor(fromMs = 0) {
    this.#fromMs = fromMs;
  }

  served({ account, ttftMs, tokenMs, promptTokens, cachedTokens, outputTokens, endMs }: Served): void {
    if (endMs < this.#fromMs) return;
    this.turns += 1;
    this.ttftMs.add(ttftMs);
    if (tokenMs > 0) this.tokenMs.add(tokenMs);
    this.promptTokens += promptTokens;
    this.cachedTokens += cachedTokens;
    this.outputTokens += outputTokens;
    let own = this.accounts.get(account);
    if (!own) {
      own = new AccountTally();
      this.accounts.set(account, own);
    }
    own.ttftMs.add(ttftMs);
    own.tokens += promptTokens - cachedTokens + outputTokens;
  }
}
