import type { DeploymentId, LeaseId, RequestId } from "../../proto/ids.ts";
import type { NanoUsd } from "../../proto/money.ts";
import { ServiceError } from "../service-error.ts";
import type { BudgetScope, Payer, ProviderPeriod } from "./scopes.ts";

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
   * the attempt they are of: the record of an earlier one does not end the wait. `overdue` is called once if no record is
   * durable after 30 seconds or when this control plane stops.
   */
  settle(cost: NanoUsd, attempt?: number, overdue?: () => void): void;
  /** Nothing was started. */
  release(): void;
  /** Something may have run and no figures came: the whole hold stays until the record of `attempt` (or 1) is settled. */
  awaitRecord(attempt?: number): void;
}

/** A hold of what a provider may be paid for one request. */
export interface ProviderHoldRequest {
  readonly provider: DeploymentId;
  readonly hasMonthLimit: boolean;
  readonly hasDayLimit: boolean;
  readonly requestId: RequestId;
  readonly admittedAtMs: number;
  /** The full upper bound: it is held whole or not at all. */
  readonly amount: NanoUsd;
}

/**
 * Grants holds. Answers at once while the slices of every budget have room; otherwise waits for a grant (one database
 * transaction). Throws InsufficientFunds when even the floor does not fit, SpendingSuspended when the grant finds the account
 * suspended, DatabaseUnavailable when the database is needed and away.
 */
export interface Budgets {
  hold(request: HoldRequest): Hold | Promise<Hold>;
  /** The same from the limits of a provider. Throws ProviderLimitReached in place of InsufficientFunds. */
  holdProvider(request: ProviderHoldRequest): Hold | Promise<Hold>;
}

/** The rest of a provider's limit does not cover the request; another model may serve it. */
export class ProviderLimitReached extends ServiceError {
  constructor() {
    super(
      "unavailable",
      "provider_limit_reached",
      "The model is at its usage limit. Use another model, or try again later.",
      {
        retryAfterSeconds: 60,
      },
    );
  }
}

/** Which of the limits a request must find room in has none left; `instances`: those of a dedicated model are not paid for. */
export type UsedUp = Exclude<BudgetScope["kind"], ProviderPeriod> | "instances";

export class InsufficientFunds extends ServiceError {
  /** Without `usedUp`: which one it was is not known. */
  constructor(usedUp?: UsedUp) {
    super("payment_required", "insufficient_quota", usedUp === undefined ? unknownLimit : sentences[usedUp]);
  }
}

/** No amounts: the holder of a token or a key is not told what the account has. */
const tooLittle = "does not cover the most this request can cost";
const unknownLimit = `You need positive balance to do inference: what is left, of your funds or of the monthly limit of your account, key or token, ${tooLittle}. Add funds, ask your operator for credit, or send a shorter request.`;
const sentences: Readonly<Record<UsedUp, string>> = {
  account: `You need positive balance to do inference: what is left of the account's funds ${tooLittle}. Add funds, ask your operator for credit, or send a shorter request.`,
  account_month: `The account's monthly limit is used up: what is left of it this month ${tooLittle}. Raise it with \`POST /payment/config\`, wait for the next month (UTC), or send a shorter request.`,
  key_month: `This API key's monthly limit is used up: what is left of it this month ${tooLittle}. Raise it with \`POST /payment/key-limits\`, use another key, wait for the next month (UTC), or send a shorter request.`,
  jwt: `This scoped token's spending limit is used up: what is left of it ${tooLittle}. Ask whoever gave it to you for another one, or send a shorter request.`,
  instances:
    "The model's instances are stopped, because the account's funds do not cover the next minutes of them. Add funds, or ask your operator for credit.",
};

/** Found by a grant, which reads the account itself. Who admits says it in his own words. */
export class SpendingSuspended extends Error {
  override readonly name = "SpendingSuspended";
  readonly reason: string;
  constructor(reason: string) {
    super(`the account is suspended: ${reason}`);
    this.reason = reason;
  }
}
