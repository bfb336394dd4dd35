import type { Logger } from "pino";
import type { AccountId } from "../../proto/ids.ts";
import { repeat } from "../../proto/repeat.ts";
import { type Charges, canCharge, wantsTopup } from "./charges.ts";
import { type Clock, systemClock } from "./clock.ts";
import { dueOf, stateOf } from "./invoices.ts";
import { monthOf, monthStartMs } from "./period.ts";
import { factsOf, reasonsOf, statusChanges } from "./status-reasons.ts";
import type { AccountStatusStore, Books, StatusDecision } from "./store.ts";

const everyMs = 5_000;

export interface AccountStatus {
  /** Suspends or reinstates the account according to its books, and charges its top-up and due invoices. */
  update(account: AccountId): Promise<void>;
  /** Updates all accounts whose status may be stale, and resumes abandoned charges. */
  updateAll(): Promise<void>;
  run(signal: AbortSignal): Promise<void>;
}

export function createAccountStatus(deps: {
  readonly store: AccountStatusStore;
  readonly charges: Pick<Charges, "topUpIfLow" | "chargeInvoice" | "resume">;
  /** Nano-USD: an invoice with less due counts as paid. */
  readonly minDue: bigint;
  readonly log: Logger;
  readonly clock?: Clock;
}): AccountStatus {
  const { store, charges, minDue, log } = deps;
  const clock = deps.clock ?? systemClock;
  const monthMs = () => monthStartMs(monthOf(clock.unixMs()));

  async function update(account: AccountId): Promise<void> {
    const books = await store.update(account, monthMs(), (found) => decide(found, clock.unixMs(), minDue));
    if (!books) return;
    if (wantsTopup(books.money)) await charges.topUpIfLow(account);
    if (!canCharge(books.money)) return;
    const due = dueOf(books.owed, minDue);
    for (const [i, invoice] of books.owed.open.entries())
      if ((due[i] ?? 0n) > 0n) await charges.chargeInvoice(account, invoice.id);
  }

  async function updateAll(): Promise<void> {
    for (const account of await store.stale(monthMs())) {
      try {
        await update(account);
      } catch (error) {
        log.warn({ err: error, account }, "could not update the status of an account; will retry");
      }
    }
    await charges.resume();
  }

  return {
    update,
    updateAll,
    async run(signal) {
      let isUnavailable = false;
      await repeat(everyMs, signal, async () => {
        try {
          await updateAll();
          isUnavailable = false;
        } catch (error) {
          if (!isUnavailable) log.warn({ err: error }, "could not update the status of accounts; will retry");
          isUnavailable = true;
        }
      });
    },
  };
}

/** Pure. */
export function decide({ money, owed, held }: Books, nowMs: number, minDue: bigint): StatusDecision {
  const due = dueOf(owed, minDue);
  const states = owed.open.map((invoice, i) => ({ id: invoice.id, ...stateOf(invoice, due[i] ?? 0n, nowMs) }));
  const overdue = states.filter((state) => state.status === "overdue").length;
  const wanted = reasonsOf(factsOf(money, overdue));
  return {
    paidInvoices: states.filter((state) => state.status === "paid").map((state) => state.id),
    ...statusChanges(wanted, held),
  };
}
