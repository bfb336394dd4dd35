import type { AccountId, LeaseId, RequestId } from "../../proto/ids.ts";
import type { NanoUsd } from "../../proto/money.ts";

/** The gateway's own count of what it delivered of an attempt whose upstream broke: the most that attempt may cost. */
export interface DeliveredCount {
  readonly requestId: RequestId;
  readonly attempt: number;
  readonly account: AccountId;
  readonly outputTokens: number;
  readonly leaseIds: readonly LeaseId[];
  readonly hold: NanoUsd;
}

export interface DeliveredCounts {
  /** Queues it for writing at once, in groups; never throws into the request. */
  report(count: DeliveredCount): void;
}
