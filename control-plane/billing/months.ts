import type { Logger } from "pino";
import type { AccountId } from "../../proto/ids.ts";
import { type Clock, systemClock } from "./clock.ts";
import { draftInvoice } from "./invoices.ts";
import { monthName, monthOf, monthStartMs } from "./period.ts";
import type { InvoiceStore } from "./store.ts";

/** Entries go by time of posting, so nothing comes late; the hours cover transactions and clocks that were slow. */
const closeAfterMs = 3 * 3_600_000;
const page = 200;

export interface MonthClosing {
  /** Makes the invoices of every month that ended long enough ago. Idempotent; several replicas may run it at once. */
  closeMonths(): Promise<number>;
}

export function createMonthClosing(deps: {
  readonly store: InvoiceStore;
  readonly log: Logger;
  /** Told of every account whose month was closed. */
  readonly onClosed?: (account: AccountId) => Promise<void>;
  readonly clock?: Clock;
}): MonthClosing {
  const { store, log } = deps;
  const clock = deps.clock ?? systemClock;

  async function closeMonths(): Promise<number> {
    let made = 0;
    for (;;) {
      const month = await store.nextOpenMonth();
      const nowMs = clock.unixMs();
      if (month === undefined || nowMs < monthStartMs(month + 1) + closeAfterMs) return made;
      for (;;) {
        const accounts = await store.unclosed(month, page);
        if (accounts.length === 0) break;
        for (const account of accounts) {
          if (await store.close(account, month, (lines, dueDays) => draftInvoice(lines, dueDays, nowMs))) made += 1;
          await deps.onClosed?.(account);
        }
      }
      await store.markClosed(month);
      log.info({ month: monthName(month), next: monthName(monthOf(nowMs)), invoices: made }, "month closed");
    }
  }

  return { closeMonths };
}
