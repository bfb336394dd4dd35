// What one account does with one model at this moment. INVARIANTS: every permit taken is ended once; nothing here waits,
// and nothing is allocated per request but the permit and the texts of its headers.
import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import { RateLimited } from "./errors.ts";
import type { RateLimits } from "./rate-limits.ts";
import { TokenWindow } from "./token-window.ts";

/** One request's place. */
export interface RatePermit {
  /** `tokens` it used, prompt and answer together. Later calls are ignored. */
  end(tokens: number): void;
}

/** How much of its limits is left, as every answer says it. */
export interface RateStanding {
  /** Appends names and values, in turn. */
  writeHeaders(to: string[]): void;
}

export class RateMeter implements RateStanding {
  /** The same at every replica. */
  readonly id: string;
  limits: RateLimits;
  inFlight = 0;
  /** Of the other replicas, as they last said. */
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

  /** Tokens of the last minute, at this replica. */
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
      // What others used is known as a sum only; it is gone after a minute at the latest.
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
      // Places are free when a request ends, and nobody knows when: a second is a fair time to look again.
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

/** "1s", "1m0s". */
function durationText(seconds: number): string {
  return seconds < 60 ? `${seconds}s` : "1m0s";
}
