// Concurrent requests and tokens per minute by account and model, and requests and tokens per minute by API key: in memory, without
// waits. All names of one deployment (its public name, its id, its adapters) count as one model.
import type { AccountId, DeploymentId, KeyId } from "../../proto/ids.ts";
import { KeyMeter, type KeyRates } from "./key-meter.ts";
import { effectiveRateLimits, type OwnRateLimits, type RateLimits } from "./rate-limits.ts";
import { RateMeter } from "./rate-meter.ts";

export interface RateLimiter {
  meter(account: AccountId, model: DeploymentId): RateMeter;
  /** Undefined: the key's limits do not apply. */
  keyMeter(key: KeyId, limits: KeyRates): KeyMeter | undefined;
}

export interface RateCounts {
  /** Running requests of an account and model; requests of the last minute of a key. */
  readonly requests: number;
  readonly tokens: number;
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
  readonly #keys = new Map<KeyId, KeyMeter>();
  readonly #defaults: RateLimits;
  readonly #second: () => number;
  #own: ReadonlyMap<AccountId, OwnRateLimits> = new Map();
  #others: ReadonlyMap<string, RateCounts> = new Map();

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
      this.#receive(meter);
      meters.byModel.set(model, meter);
    }
    return meter;
  }

  keyMeter(key: KeyId, limits: KeyRates): KeyMeter {
    let meter = this.#keys.get(key);
    if (!meter) {
      meter = new KeyMeter(key, limits, this.#second);
      this.#hearKey(meter);
      this.#keys.set(key, meter);
    }
    meter.limits = limits;
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
  setOthers(others: ReadonlyMap<string, RateCounts>): void {
    this.#others = others;
    for (const meter of this.meters()) this.#receive(meter);
    for (const meter of this.#keys.values()) this.#hearKey(meter);
  }

  /** Counts of this replica by meter, without idle ones. */
  *counts(): Generator<[id: string, counts: RateCounts]> {
    for (const { id, inFlight, tokens } of this.meters()) {
      if (inFlight > 0 || tokens > 0) yield [id, { requests: inFlight, tokens }];
    }
    for (const { id, requests, tokens } of this.#keys.values()) {
      if (requests > 0 || tokens > 0) yield [id, { requests, tokens }];
    }
  }

  *meters(): Generator<RateMeter> {
    for (const { byModel } of this.#accounts.values()) yield* byModel.values();
  }

  /** Frees the meters of idle accounts and keys. */
  forgetIdle(): void {
    for (const [key, meter] of this.#keys) if (meter.isIdle) this.#keys.delete(key);
    for (const [account, { byModel }] of this.#accounts) {
      for (const [model, meter] of byModel) if (meter.isIdle) byModel.delete(model);
      if (byModel.size === 0) this.#accounts.delete(account);
    }
  }

  #receive(meter: RateMeter): void {
    const others = this.#others.get(meter.id);
    meter.othersInFlight = others?.requests ?? 0;
    meter.othersTokens = others?.tokens ?? 0;
  }

  #hearKey(meter: KeyMeter): void {
    const others = this.#others.get(meter.id);
    meter.othersRequests = others?.requests ?? 0;
    meter.othersTokens = others?.tokens ?? 0;
  }

  #limitsOf(account: AccountId): RateLimits {
    return effectiveRateLimits(this.#own.get(account), this.#defaults);
  }
}
