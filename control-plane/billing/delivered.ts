import type {
  AccountId,
  DeploymentId,
  HostId,
  InstanceId,
  KeyId,
  LeaseId,
  ReplicaId,
  RequestId,
} from "../../proto/ids.ts";
import type { NanoUsd, ProviderRates, TokenRates } from "../../proto/money.ts";

/** What the gateway knows of an attempt, to bill it by if its host never speaks again. */
export interface LostAttempt {
  readonly host: HostId;
  readonly key: KeyId;
  readonly replica: ReplicaId;
  readonly model: string;
  readonly deployId: DeploymentId;
  readonly instanceId: InstanceId;
  readonly admittedAtMs: number;
  /** Absent: a control plane of the previous version wrote it. */
  readonly endUser?: string | null;
  /** When the answer broke off: an agent that began after it has none of this attempt but what the one before it kept. */
  readonly brokeAtMs: number;
  /** Estimated, unless the agent gave figures. */
  readonly inputTokens: number;
  /** Part of `inputTokens`, where the agent gave figures. */
  readonly cachedInputTokens?: number;
  readonly rates: TokenRates;
  readonly priceVersion: bigint;
  readonly discountId: string | null;
  /** Set for a model whose provider is paid for the request. */
  readonly provider?: { readonly rates: ProviderRates; readonly leaseIds: readonly LeaseId[] };
}

/** The gateway's own count of what it delivered of an attempt whose upstream broke: the most that attempt may cost. */
export interface DeliveredCount {
  readonly requestId: RequestId;
  readonly attempt: number;
  readonly account: AccountId;
  readonly outputTokens: number;
  readonly leaseIds: readonly LeaseId[];
  readonly hold: NanoUsd;
  readonly lost?: LostAttempt;
}

/**
 * `broken`: the upstream broke or gave no figures, so the count limits the bill. `overdue`: the reply was complete and its record is
 * late, so the count matters only if the record never comes.
 */
export type CountReason = "broken" | "overdue";

export interface DeliveredCounts {
  /** Queues it for writing at once, in groups; never throws into the request. */
  report(count: DeliveredCount, reason: CountReason): void;
}
