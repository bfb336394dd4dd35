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
}

/** Every method throws an Error with code `store_away` when PostgreSQL cannot be asked. */
export interface GpuTimeStore {
  /** In the order of `minutes`; undefined where no such instance of that deployment ran on `host`, who sent them. */
  lookUp(minutes: readonly GpuMinute[], host: HostId): Promise<readonly (KnownMinute | undefined)[]>;
  /** Keeps minutes that nobody is billed for, to be looked into; each once. */
  quarantine(minutes: readonly GpuMinute[], why: string): Promise<void>;
  /** Their records are in the ledger: nothing is reserved for them any more. */
  noteSettled(minutes: readonly GpuMinute[]): Promise<void>;
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
