import type { AccountId, KeyId } from "../../proto/ids.ts";
import { type NanoUsd, nano } from "../../proto/money.ts";
import { type Clock, systemClock } from "./clock.ts";
import { type Month, monthName, monthOf, monthStartMs, readPeriod } from "./period.ts";
import type { UsageScope, UsageStore } from "./store.ts";
import { acrossKeys, type LineDiscount, type PricingType, totalOf, type UsageLine } from "./usage-line.ts";

export interface UsageItem {
  readonly model: { readonly name: string; readonly task: string; readonly isPrivate: boolean };
  readonly pricingType: PricingType;
  /** Tokens, seconds, characters or images. */
  readonly units: number;
  readonly cost: NanoUsd;
  readonly discount: LineDiscount | null;
}

export interface UsageMonth {
  /** `YYYY.MM` */
  readonly period: string;
  /** Inclusive bounds, unix ms. */
  readonly fromMs: number;
  readonly toMs: number;
  readonly items: readonly UsageItem[];
  readonly totalCost: NanoUsd;
  /** The month's invoice; `NOT_FINAL` while entries may still be posted; `EMPTY` for a closed month without any. */
  readonly invoiceId: string;
}

export interface UsageReport {
  /** Month in which the account was created. */
  readonly initialMonth: string;
  readonly months: readonly UsageMonth[];
}

export interface KeyUsage extends UsageReport {
  readonly key: KeyId;
  readonly name: string;
}

export interface UsageQueries {
  /** Throws badPeriod. */
  usage(scope: UsageScope, from: string, to?: string): Promise<UsageReport>;
  /** One report for each key that is live or was used in the period. Throws badPeriod. */
  byKey(account: AccountId, from: string, to?: string): Promise<readonly KeyUsage[]>;
  /** Seconds that each dedicated deployment ran, from the metered minutes in [fromSeconds, toSeconds). */
  rent(account: AccountId, fromSeconds: number, toSeconds?: number): Promise<ReadonlyMap<string, number>>;
}

interface Months {
  readonly initialMonth: string;
  readonly months: readonly { readonly month: Month; readonly invoiceId: string; readonly lines: UsageLine[] }[];
}

export function createUsageQueries(deps: { readonly store: UsageStore; readonly clock?: Clock }): UsageQueries {
  const clock = deps.clock ?? systemClock;

  /** Reads a closed month from its invoice, and an open one from the stored sums of the ledger; the figures are the same. */
  async function monthsOf(account: AccountId, from: string, to: string | undefined): Promise<Months> {
    const { first, last } = readPeriod(from, to, clock.unixMs());
    const closed = await deps.store.closedMonths(account, first, last);
    const firstOpen = Math.max(first, (closed.through ?? first - 1) + 1);
    const open = firstOpen > last ? [] : await deps.store.monthLines(account, firstOpen, last);
    const invoices = new Map(closed.invoices.map((invoice) => [invoice.month, invoice]));
    const months: Months["months"][number][] = [];
    for (let month = first; month <= last; month++) {
      const invoice = invoices.get(month);
      const lines = invoice ? [...invoice.lines] : open.filter((line) => line.month === month);
      const isPast = month < monthOf(clock.unixMs());
      const isEmpty = isPast && lines.length === 0;
      months.push({ month, lines, invoiceId: invoice?.invoiceId ?? (isEmpty ? "EMPTY" : "NOT_FINAL") });
    }
    return { initialMonth: monthName(monthOf(closed.accountCreatedAtMs)), months };
  }

  const reportOf = ({ initialMonth, months }: Months, key: KeyId | undefined): UsageReport => ({
    initialMonth,
    months: months.map(({ month, invoiceId, lines }) =>
      usageMonth(month, invoiceId, key === undefined ? lines : lines.filter((line) => line.key === key)),
    ),
  });

  return {
    usage: async ({ account, key }, from, to) => reportOf(await monthsOf(account, from, to), key),

    async byKey(account, from, to) {
      const months = await monthsOf(account, from, to);
      const used = new Set(months.months.flatMap(({ lines }) => lines.map((line) => line.key)));
      const keys = await deps.store.keysOf(account);
      return keys
        .filter(({ key, isLive }) => isLive || used.has(key))
        .map(({ key, name }) => ({ key, name, ...reportOf(months, key) }));
    },

    rent: (account, fromSeconds, toSeconds) =>
      deps.store.rent(account, fromSeconds * 1000, toSeconds === undefined ? clock.unixMs() : toSeconds * 1000),
  };
}

function usageMonth(month: Month, invoiceId: string, lines: readonly UsageLine[]): UsageMonth {
  return {
    period: monthName(month),
    fromMs: monthStartMs(month),
    toMs: monthStartMs(month + 1) - 1,
    items: acrossKeys(lines).map(({ model, task, isPrivate, pricingType, milliUnits, cost, discount }) => ({
      model: { name: model, task, isPrivate },
      pricingType,
      units: Number(milliUnits) / 1000,
      cost: nano(cost),
      discount,
    })),
    totalCost: nano(totalOf(lines)),
    invoiceId,
  };
}
