// Concurrent requests and tokens per minute by account and model: in memory, without waits. All names of one deployment (its
// public name, its id, its adapters) count as one model.
import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import { effectiveRateLimits, type OwnRateLimits, type RateLimits } from "./rate-limits.ts";
import { RateMeter } from "./rate-meter.ts";

export interface RateLimiter {
  meter(account: AccountId, model: DeploymentId): RateMeter;
}

export interface RateLimiterOptions {
  readonly defaults: RateLimits;
  /** Monotonic ms. */
  readonly clock?: () => number;
}

interface AccountMeters {
  limits: RateLimits;
  readonly byModel: Map<DeploymentId, RateMeter>;
}

export class RateMeters implements RateLimiter {
  readonly #accounts = new Map<AccountId, AccountMeters>();
  readonly #defaults: RateLimits;
  readonly #second: () => number;
  #own: ReadonlyMap<AccountId, OwnRateLimits> = new Map();
  #others: Parameters<RateMeters["setOthers"]>[0] = new Map();

  constructor({ defaults, clock = () => performance.now() }: RateLimiterOptions) {
    this.#defaults = defaults;
    this.#second = () => Math.floor(clock() / 1000);
  }

  meter(account: AccountId, model: DeploymentId): RateMeter {
    let meters = this.#accounts.get(account);
    if (!meters) {
      meters = { limits: this.#limitsOf(account), byModel: new Map() };
      this.#accounts.set(account, meters);
    }
    let meter = meters.byModel.get(model);
    if (!meter) {
      meter = new RateMeter(account, model, meters.limits, this.#second);
      this.#hear(meter);
      meters.byModel.set(model, meter);
    }
    return meter;
  }

  /** Replaces the limits of all accounts that have their own; the others use the defaults. */
  setOwnLimits(own: ReadonlyMap<AccountId, OwnRateLimits>): void {
    this.#own = own;
    for (const [account, meters] of this.#accounts) {
      meters.limits = this.#limitsOf(account);
      for (const meter of meters.byModel.values()) meter.limits = meters.limits;
    }
  }

  /** Replaces the counts of the other replicas, by meter. */
  setOthers(others: ReadonlyMap<string, { readonly inFlight: number; readonly tokens: number }>): void {
    this.#others = others;
    for (const meter of this.meters()) this.#hear(meter);
  }

  *meters(): Generator<RateMeter> {
    for (const { byModel } of this.#accounts.values()) yield* byModel.values();
  }

  /** Frees the meters of idle accounts. */
  forgetIdle(): void {
    for (const [account, { byModel }] of this.#accounts) {
      for (const [model, meter] of byModel) if (meter.isIdle) byModel.delete(model);
      if (byModel.size === 0) this.#accounts.delete(account);
    }
  }

  #hear(meter: RateMeter): void {
    const others = this.#others.get(meter.id);
    meter.othersInFlight = others?.inFlight ?? 0;
    meter.othersTokens = others?.tokens ?? 0;
  }

  #limitsOf(account: AccountId): RateLimits {
    return effectiveRateLimits(this.#own.get(account), this.#defaults);
  }
}
