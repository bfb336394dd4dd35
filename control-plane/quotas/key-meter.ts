// Use of one API key, with the tokens it signed, against its own limits. INVARIANTS: every permit is ended once; nothing waits.
import type { KeyId } from "../../proto/ids.ts";
import { RateLimited } from "./errors.ts";
import type { RateFigures, RateMeter, RatePermit, RateStanding } from "./rate-meter.ts";
import { TokenWindow } from "./token-window.ts";

/** Null: no limit of its own. */
export interface KeyRates {
  readonly requestsPerMinute: number | null;
  /** Input and output. */
  readonly tokensPerMinute: number | null;
}

export class KeyMeter {
  /** The same at every replica. */
  readonly id: string;
  limits: KeyRates;
  /** Use in the last minute at the other replicas, as last reported. */
  othersRequests = 0;
  othersTokens = 0;
  #running = 0;
  readonly #requests: TokenWindow;
  readonly #tokens: TokenWindow;
  readonly #second: () => number;

  constructor(key: KeyId, limits: KeyRates, second: () => number) {
    this.id = `key ${key}`;
    this.limits = limits;
    this.#second = second;
    this.#requests = new TokenWindow(second());
    this.#tokens = new TokenWindow(second());
  }

  /** Requests of the last minute at this replica. */
  get requests(): number {
    this.#requests.advance(this.#second());
    return this.#requests.sum;
  }

  /** Tokens of the last minute at this replica. */
  get tokens(): number {
    this.#tokens.advance(this.#second());
    return this.#tokens.sum;
  }

  get isIdle(): boolean {
    return this.#running === 0 && this.requests === 0 && this.tokens === 0;
  }

  /**
   * Returns a permit of both meters. `isCounted`: the request was admitted before and is admitted again, after it waited. Throws
   * RateLimited, having counted nothing.
   */
  takeWith(model: RateMeter, isCounted: boolean): RatePermit {
    if (!isCounted) this.#check();
    const permit = model.take();
    if (!isCounted) this.#requests.add(1, this.#second());
    this.#running += 1;
    let isOpen = true;
    return {
      end: (tokens) => {
        if (!isOpen) return;
        isOpen = false;
        this.#running -= 1;
        this.#tokens.add(tokens, this.#second());
        permit.end(tokens);
      },
    };
  }

  /** The limit of the two that has less left, for requests and for tokens. */
  standingWith(model: RateStanding): RateStanding {
    return { standing: () => this.#tighter(model.standing()) };
  }

  #check(): void {
    const { requestsPerMinute, tokensPerMinute } = this.limits;
    if (requestsPerMinute !== null && this.requests + this.othersRequests >= requestsPerMinute) {
      const seconds = this.#requests.secondsUntilBelow(requestsPerMinute - this.othersRequests);
      throw RateLimited.byKey("key_rpm", requestsPerMinute, retryIn(seconds));
    }
    if (tokensPerMinute !== null && this.tokens + this.othersTokens >= tokensPerMinute) {
      const seconds = this.#tokens.secondsUntilBelow(tokensPerMinute - this.othersTokens);
      throw RateLimited.byKey("key_tpm", tokensPerMinute, retryIn(seconds));
    }
  }

  #tighter(figures: RateFigures): RateFigures {
    const { requestsPerMinute, tokensPerMinute } = this.limits;
    const requestsLeft = leftOf(requestsPerMinute, this.requests + this.othersRequests);
    const tokensLeft = leftOf(tokensPerMinute, this.tokens + this.othersTokens);
    return {
      ...figures,
      ...(requestsPerMinute !== null && requestsLeft < figures.requestsLeft
        ? {
            requestLimit: requestsPerMinute,
            requestsLeft,
            requestResetSeconds: this.#requests.secondsUntilEmpty() || 60,
          }
        : {}),
      ...(tokensPerMinute !== null && tokensLeft < figures.tokensLeft
        ? {
            tokenLimit: tokensPerMinute,
            tokensLeft,
            tokenResetSeconds: this.tokens + this.othersTokens === 0 ? 0 : this.#tokens.secondsUntilEmpty() || 60,
          }
        : {}),
    };
  }
}

const leftOf = (limit: number | null, used: number): number =>
  limit === null ? Number.POSITIVE_INFINITY : Math.max(0, limit - used);

/** The others' use is known only as a sum, which is gone after a minute at the latest. */
const retryIn = (seconds: number): number => Math.min(60, seconds || 10);
