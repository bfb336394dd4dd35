import type { Logger } from "pino";
import type { AccountId } from "../../proto/ids.ts";
import { repeat } from "../../proto/repeat.ts";
import { type Charges, canCharge, wantsTopup } from "./charges.ts";
import { type Clock, systemClock } from "./clock.ts";
import { dueOf, stateOf } from "./invoices.ts";
import { monthOf, monthStartMs } from "./period.ts";
import { factsOf, reasonsOf, standingChanges } from "./standing.ts";
import type { Books, StandingDecision, StandingStore } from "./store.ts";

const everyMs = 5_000;

export interface Judge {
  /** Makes the account stand as its books say, and charges the top-up and the invoices that are due. */
  judge(account: AccountId): Promise<void>;
  /** All accounts that may need it. */
  round(): Promise<void>;
  run(signal: AbortSignal): Promise<void>;
}

export function createJudge(deps: {
  readonly store: StandingStore;
  readonly charges: Pick<Charges, "topUpIfLow" | "chargeInvoice" | "resume">;
  /** Nano-USD: an invoice with less due counts as paid. */
  readonly leastDue: bigint;
  readonly log: Logger;
  readonly clock?: Clock;
}): Judge {
  const { store, charges, leastDue, log } = deps;
  const clock = deps.clock ?? systemClock;
  const monthMs = () => monthStartMs(monthOf(clock.unixMs()));

  async function judge(account: AccountId): Promise<void> {
    const books = await store.restand(account, monthMs(), (found) => decide(found, clock.unixMs(), leastDue));
    if (!books) return;
    if (wantsTopup(books.money)) await charges.topUpIfLow(account);
    if (!canCharge(books.money)) return;
    const due = dueOf(books.owed, leastDue);
    for (const [i, invoice] of books.owed.open.entries())
      if ((due[i] ?? 0n) > 0n) await charges.chargeInvoice(account, invoice.id);
  }

  async function round(): Promise<void> {
    for (const account of await store.toJudge(monthMs())) {
      try {
        await judge(account);
      } catch (error) {
        log.warn({ err: error, account }, "an account cannot be judged; the others are, and it is tried again");
      }
    }
    await charges.resume();
  }

  return {
    judge,
    round,
    async run(signal) {
      let isUnavailable = false;
      await repeat(everyMs, signal, async () => {
        try {
          await round();
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
export function decide({ money, owed, held }: Books, nowMs: number, leastDue: bigint): StandingDecision {
  const due = dueOf(owed, leastDue);
  const states = owed.open.map((invoice, i) => ({ id: invoice.id, ...stateOf(invoice, due[i] ?? 0n, nowMs) }));
  const overdue = states.filter((state) => state.status === "overdue").length;
  const wanted = reasonsOf(factsOf(money, overdue));
  return {
    paidInvoices: states.filter((state) => state.status === "paid").map((state) => state.id),
    ...standingChanges(wanted, held),
  };
}
