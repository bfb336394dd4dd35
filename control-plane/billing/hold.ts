import type { DeploymentId, LeaseId, RequestId } from "../../proto/ids.ts";
import type { NanoUsd } from "../../proto/money.ts";
import { ServiceError } from "../service-error.ts";
import type { BudgetScope, Payer, ProviderPeriod } from "./scopes.ts";

/** The payer's limits are those at authentication. */
export interface HoldRequest extends Payer {
  readonly requestId: RequestId;
  /** Unix ms, as in its record, so that it is held and charged in the same month. */
  readonly admittedAtMs: number;
  /** Minimum with which the request is useful: prompt and one token. */
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
   * The agent's figures arrived: keeps `cost` until its record settles and releases the rest. `attempt` (1 when left out) is the
   * attempt of the figures: the record of an earlier one does not end the wait. `overdue` is called once if no record is
   * durable after 30 seconds or when this control plane stops.
   */
  settle(cost: NanoUsd, attempt?: number, overdue?: () => void): void;
  /** Nothing ran: releases the whole hold. */
  release(): void;
  /** Something may have run without figures: keeps the whole hold until the record of `attempt` (or 1) is settled. `overdue` as above. */
  awaitRecord(attempt?: number, overdue?: () => void): void;
}

/** A hold of what a provider may be paid for one request. */
export interface ProviderHoldRequest {
  readonly provider: DeploymentId;
  readonly hasMonthLimit: boolean;
  readonly hasDayLimit: boolean;
  readonly requestId: RequestId;
  readonly admittedAtMs: number;
  /** Upper bound of the cost: it is held completely or not at all. */
  readonly amount: NanoUsd;
}

/**
 * Grants holds: at once while the slices of every budget cover it, otherwise after a grant (one database transaction). Throws
 * InsufficientFunds when even the floor does not fit, SpendingSuspended when the grant finds the account suspended, and
 * DatabaseUnavailable.
 */
export interface Budgets {
  hold(request: HoldRequest): Hold | Promise<Hold>;
  /** Holds from the limits of a provider. Throws ProviderLimitReached in place of InsufficientFunds. */
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

/** Limit that does not cover a request; `instances`: those of a dedicated model are not paid for. */
export type UsedUp = Exclude<BudgetScope["kind"], ProviderPeriod> | "instances";

export class InsufficientFunds extends ServiceError {
  /** Without `usedUp`, the limit is unknown. */
  constructor(usedUp?: UsedUp) {
    super("payment_required", "insufficient_quota", usedUp === undefined ? unknownLimit : sentences[usedUp]);
  }
}

/** No amounts, because the holder of a token or a key must not learn the account's funds. */
const tooLittle = "does not cover the most this request can cost";
const unknownLimit = `You need positive balance to do inference: what is left, of your funds or of the monthly limit of your account, key or token, ${tooLittle}. Add funds, ask your operator for credit, or send a shorter request.`;
const sentences: Readonly<Record<UsedUp, string>> = {
  account: `You need positive balance to do inference: what is left of the account's funds ${tooLittle}. Add funds, ask your operator for credit, or send a shorter request.`,
  account_month: `The account's monthly limit is used up: what is left of it this month ${tooLittle}. Raise it with \`POST /payment/config\`, wait for the next month (UTC), or send a shorter request.`,
  key_month: `This API key's monthly limit is used up: what is left of it this month ${tooLittle}. Raise it with \`POST /payment/key-limits\`, use another key, wait for the next month (UTC), or send a shorter request.`,
  project_month: `The project's monthly limit is used up: what is left of it this month ${tooLittle}. Raise it with \`PATCH /v1/projects/ID\`, use a key of another project, wait for the next month (UTC), or send a shorter request.`,
  jwt: `This scoped token's spending limit is used up: what is left of it ${tooLittle}. Request another one from its issuer, or send a shorter request.`,
  instances:
    "The model's instances are stopped, because the account's funds do not cover the next minutes of them. Add funds, or ask your operator for credit.",
};

/** A grant found the account suspended. Admission renders it as its own error. */
export class SpendingSuspended extends Error {
  override readonly name = "SpendingSuspended";
  readonly reason: string;
  constructor(reason: string) {
    super(`the account is suspended: ${reason}`);
    this.reason = reason;
  }
}
