// What billing needs remembered of GPU time. store/gpu-time-store.ts keeps it. Times are unix ms of control-plane time.
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

/** A metered minute and what the records say of its instance. */
export interface KnownMinute {
  readonly account: AccountId;
  readonly model: string;
  readonly gpu: string;
  readonly gpus: number;
  /** Of its GPU type at the start of the minute, and of the account's discounts. */
  readonly tariff: GpuTariff;
  readonly isCovered: boolean;
  readonly leaseId: LeaseId | undefined;
  /** Unix ms at which its instance was created; the earliest it can have been where that is no longer known. */
  readonly createdMs: number;
  /** Unix ms at which its host reported that the instance was gone; undefined: it may still run. */
  readonly endedMs: number | undefined;
}

/** Every method throws DatabaseUnavailable. */
export interface GpuTimeStore {
  /** In the order of `minutes`; undefined where no such instance of that deployment ran on `host`, who sent them. */
  lookUp(minutes: readonly GpuMinute[], host: HostId): Promise<readonly (KnownMinute | undefined)[]>;
  /**
   * Stops reserving money for these minutes and all earlier ones of their instances: they are in the ledger. Never goes beyond
   * what an instance holds, nor beyond the minute that contains `nowMs`.
   */
  noteSettled(minutes: readonly GpuMinute[], nowMs: number): Promise<void>;
  /** What an hour of `gpu` (a type, or the subject of another price by the hour) costs a deployment of `of`. */
  tariff(gpu: string, of: { readonly account: AccountId; readonly model: string }): Promise<GpuTariff>;
  /** Until when the instances are covered, of those that serve. */
  coveredUntil(instances: readonly InstanceId[]): Promise<ReadonlyMap<InstanceId, number>>;
  /**
   * Locks the instance's hold and its account's budgets, and writes what `decide` answers. It must be pure. `months`: whose
   * limits must have room too; they are charged when a minute is settled, which never takes them above their limit.
   */
  renew(
    instance: GpuInstance,
    months: readonly BudgetScope[],
    decide: (found: FoundHold) => HoldVerdict,
  ): Promise<HoldVerdict>;
  /** Ends the cover of instances that serve no more at the end of the present minute; how many. */
  endStopped(nowMs: number): Promise<number>;
  /** Gives back what is reserved for instances that ended before `beforeMs`; how many. */
  release(beforeMs: number): Promise<number>;
}
