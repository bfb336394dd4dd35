import type { AccountId } from "../../proto/ids.ts";
import { type NanoUsd, nano } from "../../proto/money.ts";
import { type Clock, systemClock } from "./clock.ts";
import { type Month, monthName, monthOf, monthStartMs, readPeriod } from "./period.ts";
import type { MonthlyUse, UsageScope, UsageStore } from "./store.ts";

export interface UsageItem {
  readonly model: { readonly name: string; readonly task: string; readonly isPrivate: boolean };
  /** Tokens, prompt and answer. */
  readonly units: number;
  readonly cost: NanoUsd;
}

export interface UsageMonth {
  /** `YYYY.MM` */
  readonly period: string;
  /** Inclusive bounds, unix ms. */
  readonly fromMs: number;
  readonly toMs: number;
  readonly items: readonly UsageItem[];
  readonly totalCost: NanoUsd;
  /** `NOT_FINAL` while entries may still be posted; `EMPTY` for a past month without any. */
  readonly invoiceId: "NOT_FINAL" | "EMPTY";
}

export interface UsageReport {
  /** The month of the account's first use in the answer, or of the period's start. */
  readonly initialMonth: string;
  readonly months: readonly UsageMonth[];
}

export interface FundsReport {
  /** Negative: ready to spend. */
  readonly paymentsBalance: NanoUsd;
  /** Used this month. Remaining funds = -paymentsBalance - recent. */
  readonly recent: NanoUsd;
  readonly suspendReason: string | null;
}

export interface UsageQueries {
  /** Throws BadPeriod. */
  usage(scope: UsageScope, from: string, to?: string): Promise<UsageReport>;
  /** Undefined when there is no such account. */
  funds(account: AccountId): Promise<FundsReport | undefined>;
}

export function createUsageQueries(deps: { readonly store: UsageStore; readonly clock?: Clock }): UsageQueries {
  const clock = deps.clock ?? systemClock;
  return {
    async usage(scope, from, to) {
      const { first, last } = readPeriod(from, to, clock.unixMs());
      const rows = await deps.store.monthlyUse(scope, monthStartMs(first), monthStartMs(last + 1));
      const months: UsageMonth[] = [];
      for (let month = first; month <= last; month++) months.push(usageOf(month, rows, monthOf(clock.unixMs())));
      return { initialMonth: monthName(first), months };
    },

    async funds(account) {
      const funds = await deps.store.funds(account, monthStartMs(monthOf(clock.unixMs())));
      if (!funds) return undefined;
      const spentBefore = funds.spent - funds.spentThisMonth;
      return {
        paymentsBalance: nano(spentBefore - (funds.limit ?? 0n)),
        recent: nano(funds.spentThisMonth),
        suspendReason: funds.suspendReason,
      };
    },
  };
}

function usageOf(month: Month, rows: readonly MonthlyUse[], current: Month): UsageMonth {
  const own = rows.filter((row) => monthOf(row.monthMs) === month);
  return {
    period: monthName(month),
    fromMs: monthStartMs(month),
    toMs: monthStartMs(month + 1) - 1,
    items: own.map((row) => ({
      model: { name: row.model, task: row.task, isPrivate: row.isPrivate },
      units: Number(row.tokens),
      cost: nano(row.cost),
    })),
    totalCost: nano(own.reduce((sum, row) => sum + row.cost, 0n)),
    invoiceId: own.length === 0 && month < current ? "EMPTY" : "NOT_FINAL",
  };
}
