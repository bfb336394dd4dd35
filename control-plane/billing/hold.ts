import type { LeaseId, RequestId } from "../../proto/ids.ts";
import type { NanoUsd } from "../../proto/money.ts";
import { ServiceError } from "../service-error.ts";
import type { Payer } from "./scopes.ts";

/** The payer's limits are those of the moment the request was authenticated. */
export interface HoldRequest extends Payer {
  readonly requestId: RequestId;
  /** Unix ms, as its record will say: the month it is held in is the month it is charged in, whenever it runs. */
  readonly admittedAtMs: number;
  /** The least with which the request makes sense: prompt and one token. */
  readonly floor: NanoUsd;
  /** The full upper bound of its cost. */
  readonly full: NanoUsd;
}

/**
 * Money set aside for one request, in memory, inside leased slices. Exactly one of the three ends is called, once, on
 * every exit path; later calls are ignored.
 */
export interface Hold {
  /** Between floor and full. */
  readonly amount: NanoUsd;
  readonly leaseIds: readonly LeaseId[];
  /** Unix ms after which the slices may be gone: no ticket outlives it. */
  readonly expiresAtMs: number;
  /**
   * The agent's own figures came: keep `cost` until its record settles, give the rest back. `attempt` (1 when left out) is
   * the attempt they are of: the record of an earlier one does not end the wait.
   */
  settle(cost: NanoUsd, attempt?: number): void;
  /** Nothing was started. */
  release(): void;
  /** Something may have run and no figures came: the whole hold stays until the record of `attempt` (or 1) is settled. */
  awaitRecord(attempt?: number): void;
}

/**
 * Grants holds. Answers at once while the slices of every budget have room; otherwise waits for a grant (one database
 * transaction). Throws InsufficientFunds when even the floor does not fit, SpendingSuspended when the grant finds the account
 * suspended, BudgetStoreAway when the database is needed and away.
 */
export interface Budgets {
  hold(request: HoldRequest): Hold | Promise<Hold>;
}

export class InsufficientFunds extends ServiceError {
  readonly code = "insufficient_quota";
  constructor() {
    super(
      "You need positive balance to do inference: what is left, of your funds or of the monthly limit of your account, key or token, does not cover the most this request can cost. Add funds, ask your operator for credit, or send a shorter request.",
    );
  }
}

/** Found by a grant, which reads the account itself. Who admits says it in his own words. */
export class SpendingSuspended extends Error {
  override readonly name = "SpendingSuspended";
  readonly reason: string;
  constructor(reason: string) {
    super(`the account is suspended: ${reason}`);
    this.reason = reason;
  }
}

export class BudgetStoreAway extends ServiceError {
  readonly code = "store_away";
  constructor(cause: unknown) {
    super("The billing records cannot be reached at the moment. Try again in a few seconds.", {
      cause,
      retryAfterSeconds: 2,
    });
  }
}
