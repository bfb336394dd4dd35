import type { Logger } from "pino";
import type { AccountId } from "../../proto/ids.ts";
import { type Clock, systemClock } from "./clock.ts";
import { isOutage, OutageStreak } from "./database-failure.ts";
import { draftInvoice } from "./invoices.ts";
import { type Month, monthName, monthOf, monthStartMs } from "./period.ts";
import type { InvoiceStore } from "./store.ts";

/** Entries count by time of posting, so none arrives late; these hours cover slow transactions and clocks. */
const closeAfterMs = 3 * 3_600_000;
const page = 200;

export interface MonthClosing {
  /**
   * Creates the invoices of every month that ended long enough ago. Idempotent; several replicas may run it concurrently. An
   * account whose invoice fails delays no other: its month and the following ones stay open until the next run.
   */
  closeMonths(): Promise<number>;
}

export function createMonthClosing(deps: {
  readonly store: InvoiceStore;
  readonly log: Logger;
  /** Called for every account whose month was closed. */
  readonly onClosed?: (account: AccountId) => Promise<void>;
  readonly clock?: Clock;
}): MonthClosing {
  const { store, log } = deps;
  const clock = deps.clock ?? systemClock;

  async function closeMonths(): Promise<number> {
    let made = 0;
    let hasFailed = false;
    const first = await store.nextOpenMonth();
    const nowMs = clock.unixMs();
    if (first === undefined) return 0;
    for (let month = first; nowMs >= monthStartMs(month + 1) + closeAfterMs; month++) {
      const { invoices, failed } = await closeMonth(month, nowMs);
      made += invoices;
      hasFailed ||= failed.length > 0;
      // Months are closed in order: readers of `through` rely on every earlier one.
      if (hasFailed) continue;
      await store.markClosed(month);
      log.info({ month: monthName(month), next: monthName(monthOf(nowMs)), invoices }, "month closed");
    }
    return made;
  }

  async function closeMonth(month: Month, nowMs: number) {
    const failed: AccountId[] = [];
    const slow = new Map<AccountId, unknown>();
    const outages = new OutageStreak();
    let invoices = 0;
    const failure = (account: AccountId, error: unknown): void => {
      failed.push(account);
      log.error(
        { err: error, alert: "invoice_failed", account, month: monthName(month) },
        "could not create an invoice",
      );
    };
    const differing = await store.differing(month);
    for (const account of differing) failure(account, new Error("the sums of the month differ from the ledger"));
    for (let after = "" as AccountId; ; ) {
      const accounts = await store.unclosed(month, after, page);
      const last = accounts.at(-1);
      if (last === undefined) break;
      after = last;
      for (const account of accounts) {
        if (differing.has(account)) continue;
        try {
          if (await store.close(account, month, (lines, dueDays) => draftInvoice(lines, dueDays, nowMs))) invoices += 1;
          outages.succeeded();
        } catch (error) {
          if (!isOutage(error)) failure(account, error);
          else {
            slow.set(account, error);
            outages.failed(error);
          }
          continue;
        }
        await deps.onClosed?.(account).catch((error) => {
          log.warn(
            { err: error, account },
            "could not update an account's status after its month was closed; will retry",
          );
        });
      }
    }
    // The database worked for the others: these accounts are the cause.
    for (const [account, error] of slow) failure(account, error);
    return { invoices, failed };
  }

  return { closeMonths };
}
