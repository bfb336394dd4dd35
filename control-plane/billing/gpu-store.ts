// Storage of GPU time, implemented in store/money/gpu-time-store.ts. Times are unix ms of control-plane time.
import type { AccountId, DeploymentId, HostId, InstanceId, LeaseId } from "../../proto/ids.ts";
import type { FoundHold, HoldVerdict } from "./gpu-hold.ts";
import type { GpuMinute } from "./gpu-minute.ts";
import type { GpuTariff } from "./gpu-price.ts";
import type { BudgetScope } from "./scopes.ts";

export interface GpuInstance {
  readonly instance: InstanceId;
  readonly deployId: DeploymentId;
  readonly account: AccountId;
  /** The contract's GPU type. */
  readonly gpu: string;
  readonly gpus: number;
}

/** A metered minute with the stored facts of its instance. */
export interface KnownMinute {
  readonly account: AccountId;
  readonly model: string;
  readonly gpu: string;
  readonly gpus: number;
  /** Tariff of its GPU type at the start of the minute, with the account's discounts. */
  readonly tariff: GpuTariff;
  readonly isCovered: boolean;
  /** Retention has removed the records of its time. */
  readonly isExpired: boolean;
  readonly leaseId: LeaseId | undefined;
  /** Settled ms of the other kind (awake or asleep) in this minute. */
  readonly otherMs: number;
  /** Unix ms at which its instance was created; the earliest possible time when that is no longer known. */
  readonly createdMs: number;
  /** Unix ms at which its host reported the end of the instance; undefined: it may still run. */
  readonly endedMs: number | undefined;
}

/** Every method throws DatabaseUnavailable. */
export interface GpuTimeStore {
  /** In the order of `minutes`; undefined when no such instance of that deployment ran on `host`, which sent them. */
  lookUp(minutes: readonly GpuMinute[], host: HostId): Promise<readonly (KnownMinute | undefined)[]>;
  /**
   * Stops reserving money for these minutes and all earlier ones of their instances, because they are in the ledger. Stops at
   * the end of an instance's hold and at the minute that contains `nowMs`.
   */
  noteSettled(minutes: readonly GpuMinute[], nowMs: number): Promise<void>;
  /** Tariff of `gpu` (a GPU type, or the subject of another price per hour) for a deployment. */
  tariff(gpu: string, of: { readonly account: AccountId; readonly model: string }): Promise<GpuTariff>;
  /** Ends of the holds of the instances that are ready. */
  coveredUntil(instances: readonly InstanceId[]): Promise<ReadonlyMap<InstanceId, number>>;
  /**
   * Locks the instance's hold and its account's budgets, and writes what `decide` returns; it must be pure. `months`: monthly
   * budgets that must cover it too; they are charged when a minute is settled, and never above their limit.
   */
  renew(
    instance: GpuInstance,
    months: readonly BudgetScope[],
    decide: (found: FoundHold) => HoldVerdict,
  ): Promise<HoldVerdict>;
  /** Ends the holds of instances that are no longer ready at the end of the present minute; returns their number. */
  endStopped(nowMs: number): Promise<number>;
  /** Releases what is reserved for instances that ended before `beforeMs`; returns their number. */
  release(beforeMs: number): Promise<number>;
}
