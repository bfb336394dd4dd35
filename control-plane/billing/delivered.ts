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

/** Facts of an attempt that the gateway bills if its host is lost. */
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
  readonly tier?: string | null;
  /** Time at which the response broke off: an agent that started later has only what its predecessor stored of the attempt. */
  readonly brokeAtMs: number;
  /** Estimated unless the agent reported figures. */
  readonly inputTokens: number;
  /** Part of `inputTokens`, if the agent reported figures. */
  readonly cachedInputTokens?: number;
  readonly rates: TokenRates;
  readonly priceVersion: bigint;
  readonly discountId: string | null;
  /** Set for a model whose provider is paid for the request. */
  readonly provider?: { readonly rates: ProviderRates; readonly leaseIds: readonly LeaseId[] };
}

/** Output frames that the gateway delivered of an attempt whose upstream broke: maximum of what the attempt may cost. */
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
 * `broken`: the upstream broke or reported no figures. `overdue`: the record of a complete reply, or of one whose client left, is late.
 * A count limits the bill in both cases, also of a record that arrives later.
 */
export type CountReason = "broken" | "overdue";

export interface DeliveredCounts {
  /** Queues it for writing at once, in groups; never throws into the request. */
  report(count: DeliveredCount, reason: CountReason): void;
}
