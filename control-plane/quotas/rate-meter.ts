// Current use of one model by one account. INVARIANTS: every permit is ended once; nothing waits, and a request allocates
// only its permit and header texts.
import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import { RateLimited } from "./errors.ts";
import type { RateLimits } from "./rate-limits.ts";
import { TokenWindow } from "./token-window.ts";

/** Permit of one request. */
export interface RatePermit {
  /** `tokens`: used by the request, input and output. Later calls are ignored. */
  end(tokens: number): void;
}

/** Remaining limits, as reported in every response. */
export interface RateStanding {
  /** Appends header names and values alternately. */
  writeHeaders(to: string[]): void;
}

export class RateMeter implements RateStanding {
  /** The same at every replica. */
  readonly id: string;
  limits: RateLimits;
  inFlight = 0;
  /** Concurrent requests at the other replicas, as last reported. */
  othersInFlight = 0;
  othersTokens = 0;
  readonly #window: TokenWindow;
  readonly #second: () => number;

  constructor(account: AccountId, model: DeploymentId, limits: RateLimits, second: () => number) {
    this.id = `${account} ${model}`;
    this.limits = limits;
    this.#second = second;
    this.#window = new TokenWindow(second());
  }

  /** Tokens of the last minute at this replica. */
  get tokens(): number {
    this.#window.advance(this.#second());
    return this.#window.sum;
  }

  get isIdle(): boolean {
    return this.inFlight === 0 && this.tokens === 0;
  }

  /** Throws RateLimited. */
  take(): RatePermit {
    const { concurrent, tokensPerMinute } = this.limits;
    if (this.inFlight + this.othersInFlight >= concurrent) throw RateLimited.byConcurrency(concurrent);
    if (this.tokens + this.othersTokens >= tokensPerMinute) {
      // The others' tokens are known only as a sum, which is gone after a minute at the latest.
      const seconds = this.#window.secondsUntilBelow(tokensPerMinute - this.othersTokens);
      throw RateLimited.byTokens(tokensPerMinute, Math.min(60, seconds || 10));
    }
    this.inFlight += 1;
    return new Permit(this);
  }

  give(tokens: number): void {
    this.inFlight -= 1;
    this.#window.add(tokens, this.#second());
  }

  writeHeaders(to: string[]): void {
    const { concurrent, tokensPerMinute } = this.limits;
    const used = this.tokens + this.othersTokens;
    to.push(
      "x-ratelimit-limit-requests",
      String(concurrent),
      "x-ratelimit-limit-tokens",
      String(tokensPerMinute),
      "x-ratelimit-remaining-requests",
      String(Math.max(0, concurrent - this.inFlight - this.othersInFlight)),
      "x-ratelimit-remaining-tokens",
      String(Math.max(0, tokensPerMinute - used)),
      // A permit is free when a request ends, which cannot be predicted: suggest a retry after a second.
      "x-ratelimit-reset-requests",
      "1s",
      "x-ratelimit-reset-tokens",
      durationText(used === 0 ? 0 : this.#window.secondsUntilEmpty() || 60),
    );
  }
}

class Permit implements RatePermit {
  #meter: RateMeter | undefined;

  constructor(meter: RateMeter) {
    this.#meter = meter;
  }

  end(tokens: number): void {
    this.#meter?.give(tokens);
    this.#meter = undefined;
  }
}

/** Formats as "1s" or "1m0s". */
function durationText(seconds: number): string {
  return seconds < 60 ? `${seconds}s` : "1m0s";
}
