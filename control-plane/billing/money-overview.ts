import type { AccountId } from "../../proto/ids.ts";
import type { Month } from "./period.ts";

/** Money of the whole installation, for operators; amounts in nano-USD. */
export interface MoneyOverview {
  /** Imbalance of the ledger's transactions of the last ten minutes; must be 0. */
  readonly imbalance: bigint;
  /** Amount of budgets that control planes lease for running and expected requests. */
  readonly leased: bigint;
  readonly openLeases: number;
  /** Part of `leased` that running instances hold for their next minutes. */
  readonly gpuHeld: bigint;
  readonly openGpuHolds: number;
  /** Platform loss of the last hour. */
  readonly lossOfHour: bigint;
  /** Usage records that wait for an operator. */
  readonly quarantined: number;
  readonly suspended: readonly { readonly reason: string; readonly accounts: number }[];
  /** Accounts by spending of this month (UTC), largest first. */
  readonly spenders: readonly Spender[];
}

export interface Spender {
  readonly account: AccountId;
  readonly displayName: string;
  readonly email: string;
  readonly spent: bigint;
  readonly requests: number;
}

export interface MoneyOverviewStore {
  /** Returns at most `maxSpenders` spenders. */
  overview(month: Month, maxSpenders: number): Promise<MoneyOverview>;
}
