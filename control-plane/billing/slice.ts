// One lease as its replica sees it. Its free part is what PostgreSQL granted, less what the ledger took, less what running
// and unrecorded requests hold: never more than the database's own `granted - settled` less those requests.
import type { AccountId, LeaseId } from "../../proto/ids.ts";
import type { BudgetScope } from "./scopes.ts";

export interface Slice {
  readonly leaseId: LeaseId;
  readonly budget: BudgetScope;
  readonly account: AccountId;
  granted: bigint;
  /** As last read from the lease row: charges of records that are durable. */
  settled: bigint;
  /** Running requests, and ended ones whose record is not durable yet. */
  reserved: bigint;
  /** Monotonic. PostgreSQL's own expiry is later: it counts from when the renewal arrived, this from when it was sent. */
  deadlineMs: number;
  renewedAtMs: number;
  readonly bornAtMs: number;
  usedAtMs: number;
  openHolds: number;
  unrecorded: number;
  /** Admits nothing more; goes back as its requests end. */
  isRetired: boolean;
  /** Grants and returns in flight: while one is, `granted` in the database may be either side of it. */
  moves: number;
  /** Counts them, so that a reader knows when one happened meanwhile. */
  moved: number;
}

export const freeOf = (slice: Slice): bigint => slice.granted - slice.settled - slice.reserved;

export interface SliceTiming {
  readonly ttlMs: number;
  readonly renewEveryMs: number;
  /** Nothing is admitted in the last part of a lease: a ticket signed now must still be of use. */
  readonly marginMs: number;
  /** Unused this long, its free part goes back. */
  readonly idleMs: number;
  /** After this a fresh lease replaces it, so that one request whose record never comes cannot keep it open for ever. */
  readonly maxAgeMs: number;
  /** A retired slice waits this long for missing records, then is left to expire. */
  readonly forgetMs: number;
  readonly tickMs: number;
  readonly sweepEveryMs: number;
  /** Beyond its expiry, before a dead replica's lease may go back: agents must have had time to report it open. */
  readonly sweepGraceMs: number;
}

export const sliceTiming: SliceTiming = {
  ttlMs: 30_000,
  renewEveryMs: 10_000,
  marginMs: 3_000,
  idleMs: 5_000,
  maxAgeMs: 300_000,
  forgetMs: 60_000,
  tickMs: 1_000,
  sweepEveryMs: 10_000,
  sweepGraceMs: 15_000,
};

/** Every span that much shorter. */
export const scaledTiming = (scale: number): SliceTiming =>
  Object.fromEntries(Object.entries(sliceTiming).map(([span, ms]) => [span, ms * scale])) as unknown as SliceTiming;
