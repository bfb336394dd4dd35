import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { AccountId } from "../../proto/ids.ts";
import type { Charges } from "./charges.ts";
import { type Clock, systemClock } from "./clock.ts";
import { dueOf, stateOf } from "./invoices.ts";
import { monthOf, monthStartMs } from "./period.ts";
import { reasonsOf, standingChanges } from "./standing.ts";
import type { AccountMoney, Books, StandingDecision, StandingStore } from "./store.ts";

const everyMs = 5_000;

export interface Judge {
  /** Makes the account stand as its books say, and starts the top-up that is due. */
  judge(account: AccountId): Promise<void>;
  /** All accounts that may need it. */
  round(): Promise<void>;
  run(signal: AbortSignal): Promise<void>;
}

export function createJudge(deps: {
  readonly store: StandingStore;
  readonly charges: Pick<Charges, "topUp" | "resume">;
  readonly log: Logger;
  readonly clock?: Clock;
}): Judge {
  const { store, charges, log } = deps;
  const clock = deps.clock ?? systemClock;
  const monthMs = () => monthStartMs(monthOf(clock.unixMs()));

  async function judge(account: AccountId): Promise<void> {
    const money = await store.restand(account, monthMs(), (books) => decide(books, clock.unixMs()));
    if (money && wantsTopup(money)) await charges.topUp(account, money.topup.amount);
  }

  async function round(): Promise<void> {
    for (const account of await store.toJudge(monthMs())) await judge(account);
    await charges.resume();
  }

  return {
    judge,
    round,
    async run(signal) {
      let isAway = false;
      while (!signal.aborted) {
        try {
          await round();
          isAway = false;
        } catch (error) {
          if (!isAway) log.warn({ err: error }, "accounts cannot be judged; it is tried again every few seconds");
          isAway = true;
        }
        await wait(everyMs, undefined, { signal }).catch(() => {});
      }
    },
  };
}

/** Pure. */
export function decide({ money, owed, held }: Books, nowMs: number): StandingDecision {
  const due = dueOf(owed);
  const states = owed.open.map((invoice, i) => ({ id: invoice.id, ...stateOf(invoice, due[i] ?? 0n, nowMs) }));
  const wanted = reasonsOf({
    left: money.limit === null ? null : money.limit - money.spent,
    monthlyLimit: money.monthlyLimit,
    spentThisMonth: money.spentThisMonth,
    overdueInvoices: states.filter((state) => state.status === "overdue").length,
    cardFailed: money.cardFailed,
    needsPaymentMethod: money.needsPaymentMethod,
    hasPaymentMethod: money.hasPaymentMethod,
  });
  return {
    paidInvoices: states.filter((state) => state.status === "paid").map((state) => state.id),
    ...standingChanges(wanted, held),
  };
}

/** After a failed one nothing is charged until the customer or the operator did something about it. */
export function wantsTopup({ topup, limit, spent, creditLine }: AccountMoney): boolean {
  if (!topup.isOn || topup.hasFailed || topup.amount <= 0n || limit === null) return false;
  return limit - creditLine - spent < topup.threshold;
}
