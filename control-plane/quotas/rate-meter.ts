// Current use of one model by one account. INVARIANTS: every permit is ended once; nothing waits, and a request allocates
// only its permit and figures.
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
  standing(): RateFigures;
}

export interface RateFigures {
  readonly requestLimit: number;
  readonly requestsLeft: number;
  /** Until all requests are back; at most 61. */
  readonly requestResetSeconds: number;
  readonly tokenLimit: number;
  readonly tokensLeft: number;
  /** Until all tokens are back; at most 60. */
  readonly tokenResetSeconds: number;
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

  standing(): RateFigures {
    const { concurrent, tokensPerMinute } = this.limits;
    const used = this.tokens + this.othersTokens;
    return {
      requestLimit: concurrent,
      requestsLeft: Math.max(0, concurrent - this.inFlight - this.othersInFlight),
      // A permit is free when a request ends, which cannot be predicted: suggest a retry after a second.
      requestResetSeconds: 1,
      tokenLimit: tokensPerMinute,
      tokensLeft: Math.max(0, tokensPerMinute - used),
      tokenResetSeconds: used === 0 ? 0 : this.#window.secondsUntilEmpty() || 60,
    };
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
