import type { LeaseId, RequestId } from "../../proto/ids.ts";
import type { NanoUsd } from "../../proto/money.ts";
import type { Hold } from "./hold.ts";
import type { Slice } from "./slice.ts";

/** What a hold tells its owner when it ends. */
export interface HoldEnds {
  /** Nothing is owed. */
  freed(held: HeldMoney): void;
  /** `held.reserved` stays until a record of `held.attempt` or a later one is durable. */
  unrecorded(held: HeldMoney): void;
  nowMs(): number;
}

/** One request's part of its slices, one per scope. */
export class HeldMoney implements Hold {
  readonly requestId: RequestId;
  readonly amount: NanoUsd;
  readonly leaseIds: readonly LeaseId[];
  readonly expiresAtMs: number;
  readonly slices: readonly Slice[];
  /** Still set aside in each slice. */
  reserved: bigint;
  attempt = 1;
  isOpen = true;
  readonly #ends: HoldEnds;

  constructor(requestId: RequestId, amount: NanoUsd, slices: readonly Slice[], expiresAtMs: number, ends: HoldEnds) {
    this.requestId = requestId;
    this.amount = amount;
    this.slices = slices;
    this.leaseIds = slices.map((slice) => slice.leaseId);
    this.expiresAtMs = expiresAtMs;
    this.reserved = amount;
    this.#ends = ends;
    for (const slice of slices) {
      slice.reserved += amount;
      slice.openHolds += 1;
    }
  }

  settle(cost: NanoUsd, attempt = 1): void {
    if (!this.#end()) return;
    this.attempt = attempt;
    this.#shrinkTo(cost < this.amount ? cost : this.amount);
  }

  release(): void {
    if (this.#end()) this.#shrinkTo(0n);
  }

  awaitRecord(attempt = 1): void {
    if (!this.#end()) return;
    this.attempt = attempt;
    this.#shrinkTo(this.amount);
  }

  /** The record is durable, or is waited for no longer. */
  drop(): void {
    for (const slice of this.slices) {
      slice.reserved -= this.reserved;
      slice.unrecorded -= 1;
    }
    this.reserved = 0n;
  }

  #end(): boolean {
    if (!this.isOpen) return false;
    this.isOpen = false;
    const nowMs = this.#ends.nowMs();
    for (const slice of this.slices) {
      slice.openHolds -= 1;
      slice.usedAtMs = nowMs;
    }
    return true;
  }

  #shrinkTo(rest: bigint): void {
    for (const slice of this.slices) {
      slice.reserved -= this.reserved - rest;
      if (rest > 0n) slice.unrecorded += 1;
    }
    this.reserved = rest;
    if (rest > 0n) this.#ends.unrecorded(this);
    else this.#ends.freed(this);
  }
}
