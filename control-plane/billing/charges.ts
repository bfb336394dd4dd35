// Top-ups and charges for invoices. A charge is a row that moves by guarded steps: charging -> done | failed, or requested
// -> done | failed where a person decides. A crash between the provider's reply and our record changes nothing: the same
// charge is sent again under the same id, and its credit counts once per payment.

import type { Logger } from "pino";
import type { AccountId } from "../../proto/ids.ts";
import { type Act, bySystem } from "../act.ts";
import { conflict, notFound } from "../service-error.ts";
import type { Funds } from "./funds.ts";
import { dueOf } from "./invoices.ts";
import type { AccountMoney, Unmade } from "./payment-store.ts";
import { type ChargeOutcome, nanoPerCent, type PaymentNews, type PaymentProvider } from "./payments.ts";
import type { Books, Charge, ChargeStore, FailureCause, Payment } from "./store.ts";

/** Time after which another replica may resume a charge. */
const claimMs = 120_000;
const hourMs = 3_600_000;
/** Providers deduplicate an order by its id for 24 hours; sent again later, it would be another payment. */
const sameOrderMs = 20 * hourMs;
/** Slow payment methods take some working days. A payment that is pending longer is given up; if it is paid later, it counts. */
const maxPendingMs = 30 * 24 * hourMs;

export const chargeNotFound = () => notFound("topup_request_not_found", "Top-up request not found.");

export const chargeEnded = () => conflict("topup_request_ended", "This top-up request was already decided.");

export interface Charges {
  /**
   * Requests a top-up from a person, under a new id, in place of one that still waits. Does not throw when the provider is
   * unavailable: the next round retries.
   */
  replaceRequest(account: AccountId, amount: bigint): Promise<void>;
  /** Charges the account's automatic top-up if its funds are still below the threshold when the charge begins. */
  topUpIfLow(account: AccountId): Promise<void>;
  /** Charges what is due of an invoice, unless a charge for it is in flight or the card cannot be charged. */
  chargeInvoice(account: AccountId, invoiceId: string): Promise<void>;
  /** Resumes charges whose replica ended. */
  resume(): Promise<void>;
  /** Applies the provider's report of a payment. The result is the same for repeated and reordered reports. */
  take(news: PaymentNews): Promise<void>;
  requests(): Promise<readonly Charge[]>;
  /** Credits of the account and top-ups that are not credited, newest first. */
  payments(account: AccountId, limit: number): Promise<readonly Payment[]>;
  /** Throws chargeNotFound, chargeEnded. */
  fulfil(id: string, by: Act): Promise<Charge>;
  /** Throws chargeNotFound, chargeEnded. */
  reject(id: string, by: Act): Promise<Charge>;
}

export function createCharges(deps: {
  readonly store: ChargeStore;
  readonly provider: PaymentProvider;
  readonly funds: Funds;
  /** Nano-USD: an invoice with less due is not charged. */
  readonly minDue: bigint;
  /** Called after a request was fulfilled: the account may be able to pay again. */
  readonly onGranted: (account: AccountId) => Promise<void>;
  /** Called after a charge failed: the account's status may change. */
  readonly onFailed: (account: AccountId) => Promise<void>;
  readonly log: Logger;
  readonly unixMs?: () => number;
}): Charges {
  const { store, provider, funds, log } = deps;
  const unixMs = deps.unixMs ?? Date.now;

  async function start(
    charge: Pick<Charge, "account" | "purpose" | "invoiceId">,
    amountOf: (books: Pick<Books, "money" | "owed">) => bigint,
  ): Promise<void> {
    const begun = await store.begin(
      { ...charge, provider: provider.name },
      (books) => (mustWait(books.unmade) ? 0n : amountOf(books)),
      claimMs,
    );
    if (begun) await send(begun, 0);
  }

  /** Never throws: after an error the claim expires, and the charge is sent again. `ageMs`: time since it began. */
  async function send(charge: Charge, ageMs: number): Promise<void> {
    try {
      const outcome = await outcomeOf(charge, ageMs);
      if (outcome.kind === "paid") await paid(charge, outcome.paymentId);
      else if (outcome.kind === "declined") await failed(charge, outcome.why, "card");
      else if (outcome.kind === "nothing_on_file") await failed(charge, "no payment method is on file", outcome.kind);
      else if (outcome.kind === "never_made") await failed(charge, "no payment was made for it", "nobody");
      else if (outcome.kind === "pending") await pending(charge, ageMs, outcome.paymentId);
      else await store.move(charge.id, "charging", "requested", "");
    } catch (error) {
      log.warn({ err: error, charge: charge.id, account: charge.account }, "could not charge an account; will retry");
    }
  }

  /** Reads the outcome of a known payment. Searches for an unknown one once the provider no longer deduplicates its order. */
  async function outcomeOf(charge: Charge, ageMs: number): Promise<ChargeOutcome | { readonly kind: "never_made" }> {
    if (charge.paymentId !== null) return provider.outcomeOf(charge.paymentId);
    const { account, purpose, customer, id: chargeId, createdAtMs: orderedAtMs } = charge;
    const order = { account, purpose, chargeId, customer, amountCents: Number(charge.amount / nanoPerCent) };
    if (ageMs < sameOrderMs) return provider.charge(order);
    return (await provider.find({ ...order, orderedAtMs })) ?? { kind: "never_made" };
  }

  async function pending(charge: Charge, ageMs: number, paymentId: string): Promise<void> {
    if (charge.paymentId === null) await store.move(charge.id, "charging", "charging", paymentId);
    if (ageMs < maxPendingMs) return;
    log.error(
      { alert: "payment_without_end", charge: charge.id, account: charge.account, payment: paymentId },
      "gave up a payment that was pending for 30 days; check it at the provider",
    );
    await failed(charge, `still pending after 30 days: ${paymentId}`, "nobody");
  }

  /** Credits first, under the payment's own reference, so that a concurrent or repeated call finds the credit. */
  async function paid(charge: Pick<Charge, "id" | "account" | "amount">, paymentId: string): Promise<void> {
    await credit(charge.account, charge.amount, paymentId, `charge ${charge.id}`);
    await store.move(charge.id, "charging", "done", paymentId);
    log.info({ charge: charge.id, account: charge.account, payment: paymentId }, "charge paid");
  }

  const credit = (account: AccountId, amount: bigint, paymentId: string, note: string) =>
    funds.grantCredit(
      { account, amount, kind: "topup", reference: `${provider.name}/${paymentId}`, note },
      bySystem(note),
    );

  async function failed(charge: Pick<Charge, "id" | "account">, why: string, cause: FailureCause): Promise<void> {
    if (!(await store.fail(charge.id, "charging", why, cause))) return;
    log.warn({ charge: charge.id, account: charge.account, why }, "charge failed");
    await deps.onFailed(charge.account);
  }

  async function requested(id: string): Promise<Charge> {
    const charge = await store.find(id);
    if (!charge) throw chargeNotFound();
    if (charge.state !== "requested") throw chargeEnded();
    return charge;
  }

  return {
    async replaceRequest(account, amount) {
      const begun = await store.replaceTopup({ account, amount, provider: provider.name }, claimMs);
      if (begun) await send(begun, 0);
    },
    topUpIfLow: (account) =>
      start({ account, purpose: "topup", invoiceId: null }, ({ money }) =>
        wantsTopup(money) ? money.topup.amount : 0n,
      ),
    chargeInvoice: (account, invoiceId) =>
      start({ account, purpose: "invoice", invoiceId }, (books) => invoiceAmount(books, invoiceId, deps.minDue)),

    async resume() {
      for (const charge of await store.claimAbandoned(claimMs)) await send(charge, unixMs() - charge.createdAtMs);
    },

    async take(news) {
      switch (news.kind) {
        case "paid": {
          const { account, amountCents, paymentId, chargeId } = news;
          await credit(account, BigInt(amountCents) * nanoPerCent, paymentId, `payment ${paymentId}`);
          if (chargeId === undefined) return;
          // The provider reported a refusal first, and the customer paid afterwards.
          if (!(await store.move(chargeId, "charging", "done", paymentId)))
            await store.move(chargeId, "failed", "done", paymentId);
          return;
        }
        case "declined":
          return failed({ id: news.chargeId, account: news.account }, news.why, "card");
        case "on_file":
          // Events arrive in any order: read what is on file now instead of trusting the message.
          return store.onFile(news.customer, await provider.onFile(news.customer));
      }
    },

    requests: () => store.requested(),
    payments: store.payments,

    async fulfil(id, by) {
      const charge = await requested(id);
      const { account, amount } = charge;
      const grant = { account, amount, kind: "topup", reference: `manual/${id}`, note: by.note } as const;
      if (!(await store.fulfil(charge, grant, by))) throw chargeEnded();
      await deps.onGranted(account);
      return { ...charge, state: "done" };
    },

    async reject(id, by) {
      const charge = await requested(id);
      if (!(await store.fail(id, "requested", by.note, "person", by))) throw chargeEnded();
      await deps.onFailed(charge.account);
      return { ...charge, state: "failed" };
    },
  };
}

/** After a failed top-up nothing is charged until the customer or the operator acts. */
export function wantsTopup({ topup, limit, spent, creditLine }: AccountMoney): boolean {
  if (!topup.isOn || topup.hasFailed || topup.amount <= 0n || limit === null) return false;
  return limit - creditLine - spent < topup.threshold;
}

/** Without a working card, an invoice stays open until it is due. */
export const canCharge = ({ hasPaymentMethod, cardFailed }: AccountMoney): boolean => hasPaymentMethod && !cardFailed;

/** Whole cents, as providers require; the rest is carried over to the next invoice. 0: nothing to charge. */
function invoiceAmount({ money, owed }: Pick<Books, "money" | "owed">, invoiceId: string, minDue: bigint): bigint {
  if (!canCharge(money)) return 0n;
  const due = dueOf(owed, minDue)[owed.open.findIndex((invoice) => invoice.id === invoiceId)] ?? 0n;
  return due - (due % nanoPerCent);
}

/** After an order without a payment the next one waits an hour, after each further one twice as long, at most a day. */
const mustWait = ({ count, agoMs }: Unmade): boolean =>
  count > 0 && agoMs < Math.min(24, 2 ** Math.min(count - 1, 5)) * hourMs;
