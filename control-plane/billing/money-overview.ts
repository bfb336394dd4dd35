import type { AccountId } from "../../proto/ids.ts";
import type { Month } from "./period.ts";

/** What an operator watches of everybody's money; amounts in nano-USD. */
export interface MoneyOverview {
  /** Of the ledger's transactions of the last ten minutes: anything but 0 is a defect. */
  readonly imbalance: bigint;
  /** What control planes hold of budgets for requests that run or may come. */
  readonly leased: bigint;
  readonly openLeases: number;
  /** What the installation bore itself in the last hour: work that no customer could be charged for. */
  readonly lossOfHour: bigint;
  /** Usage records that wait for an operator. */
  readonly quarantined: number;
  readonly suspended: readonly { readonly reason: string; readonly accounts: number }[];
  /** Of this month (UTC), the largest first. */
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
  /** At most `most` spenders. */
  overview(month: Month, most: number): Promise<MoneyOverview>;
}
