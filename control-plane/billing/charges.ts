// Top-ups and charges for invoices. A charge is a row that moves by guarded steps: charging -> done | failed, or requested
// -> done | failed where a person decides. A crash between the provider's yes and our record changes nothing: the same
// charge is asked again under the same id, and its credit counts once per payment.
import type { Logger } from "pino";
import type { AccountId } from "../../proto/ids.ts";
import { conflict, notFound } from "../service-error.ts";
import type { Funds } from "./funds.ts";
import { dueOf } from "./invoices.ts";
import type { AccountMoney, Unmade } from "./payment-store.ts";
import { type ChargeOutcome, nanoPerCent, type PaymentNews, type PaymentProvider } from "./payments.ts";
import type { Books, Charge, ChargeStore, Doer, FailureCause } from "./store.ts";

/** How long one replica may ask the provider before another does. */
const claimMs = 120_000;
const hourMs = 3_600_000;
/** Providers know an order by its id for 24 hours; asked again later, it would be another payment. */
const sameOrderMs = 20 * hourMs;
/** Slow ways of paying take some working days. One that is pending longer is given up; should it be paid after all, it counts. */
const maxPendingMs = 30 * 24 * hourMs;

export const chargeNotFound = () => notFound("topup_request_not_found", "Top-up request not found.");

export const chargeEnded = () => conflict("topup_request_ended", "This top-up request was already decided.");

export interface Charges {
  /**
   * Asks a person for a top-up, in place of one that still waits: it gets a number of its own. Never throws for a provider
   * that is away: the next round asks again.
   */
  requestAnew(account: AccountId, amount: bigint): Promise<void>;
  /** The account's own top-up, if its funds are still below the threshold when it begins. */
  topUpIfLow(account: AccountId): Promise<void>;
  /** Asks for what is due of an invoice when it begins, unless a charge for it is in flight or the card cannot be charged. */
  chargeInvoice(account: AccountId, invoiceId: string): Promise<void>;
  /** Takes up charges whose replica went away. */
  resume(): Promise<void>;
  /** What the provider tells of a payment; told twice or out of order it ends the same. */
  take(news: PaymentNews): Promise<void>;
  requests(): Promise<readonly Charge[]>;
  /** Throws chargeNotFound, chargeEnded. */
  fulfil(id: string, by: Doer): Promise<Charge>;
  /** The same. */
  reject(id: string, by: Doer): Promise<Charge>;
}

export function createCharges(deps: {
  readonly store: ChargeStore;
  readonly provider: PaymentProvider;
  readonly funds: Funds;
  /** Nano-USD: an invoice with less due is not charged. */
  readonly leastDue: bigint;
  /** After a request was fulfilled: the account may be able to pay again. */
  readonly onGranted: (account: AccountId) => Promise<void>;
  /** After a charge failed: the account's standing changes. */
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
    if (begun) await ask(begun, 0);
  }

  /** Errors stay here: the claim ends, and the charge is asked again. `ageMs`: since it was begun. */
  async function ask(charge: Charge, ageMs: number): Promise<void> {
    try {
      const outcome = await outcomeOf(charge, ageMs);
      if (outcome.kind === "paid") await paid(charge, outcome.paymentId);
      else if (outcome.kind === "declined") await failed(charge, outcome.why, "card");
      else if (outcome.kind === "nothing_on_file") await failed(charge, "no payment method is on file", outcome.kind);
      else if (outcome.kind === "never_made") await failed(charge, "no payment was made for it", "nobody");
      else if (outcome.kind === "pending") await pending(charge, ageMs, outcome.paymentId);
      else await store.move(charge.id, "charging", "requested", "");
    } catch (error) {
      log.warn(
        { err: error, charge: charge.id, account: charge.account },
        "a charge could not be made; it is tried again",
      );
    }
  }

  /** A payment that is known is looked up, and one that nobody heard of is looked for once its order counts no more. */
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
      "a payment was pending for 30 days and is given up; look at it at the provider",
    );
    await failed(charge, `still pending after 30 days: ${paymentId}`, "nobody");
  }

  /** The credit first, under the payment's own reference: whoever comes second, or again, finds it there. */
  async function paid(charge: Pick<Charge, "id" | "account" | "amount">, paymentId: string): Promise<void> {
    await credit(charge.account, charge.amount, paymentId, `charge ${charge.id}`);
    await store.move(charge.id, "charging", "done", paymentId);
    log.info({ charge: charge.id, account: charge.account, payment: paymentId }, "charge paid");
  }

  const credit = (account: AccountId, amount: bigint, paymentId: string, note: string) =>
    funds.grantCredit(
      { account, amount, kind: "topup", reference: `${provider.name}/${paymentId}`, note },
      { actor: "system", ip: "" },
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
    async requestAnew(account, amount) {
      const begun = await store.beginAnew({ account, amount, provider: provider.name }, claimMs);
      if (begun) await ask(begun, 0);
    },
    topUpIfLow: (account) =>
      start({ account, purpose: "topup", invoiceId: null }, ({ money }) =>
        wantsTopup(money) ? money.topup.amount : 0n,
      ),
    chargeInvoice: (account, invoiceId) =>
      start({ account, purpose: "invoice", invoiceId }, (books) => invoiceAmount(books, invoiceId, deps.leastDue)),

    async resume() {
      for (const charge of await store.claimAbandoned(claimMs)) await ask(charge, unixMs() - charge.createdAtMs);
    },

    async take(news) {
      switch (news.kind) {
        case "paid": {
          const { account, amountCents, paymentId, chargeId } = news;
          await credit(account, BigInt(amountCents) * nanoPerCent, paymentId, `payment ${paymentId}`);
          if (chargeId === undefined) return;
          // A refusal that was told first, and then overcome by the customer.
          if (!(await store.move(chargeId, "charging", "done", paymentId)))
            await store.move(chargeId, "failed", "done", paymentId);
          return;
        }
        case "declined":
          return failed({ id: news.chargeId, account: news.account }, news.why, "card");
        case "on_file":
          // Events come in any order: what is on file now is asked for, not taken from the message.
          return store.onFile(news.customer, await provider.onFile(news.customer));
      }
    },

    requests: () => store.requested(),

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

/** After a failed one nothing is charged until the customer or the operator did something about it. */
export function wantsTopup({ topup, limit, spent, creditLine }: AccountMoney): boolean {
  if (!topup.isOn || topup.hasFailed || topup.amount <= 0n || limit === null) return false;
  return limit - creditLine - spent < topup.threshold;
}

/** Without a card that works, an invoice waits for its day. */
export const canCharge = ({ hasPaymentMethod, cardFailed }: AccountMoney): boolean => hasPaymentMethod && !cardFailed;

/** Whole cents, as providers take; what is less than one is carried over to the next invoice. 0: nothing to charge. */
function invoiceAmount({ money, owed }: Pick<Books, "money" | "owed">, invoiceId: string, leastDue: bigint): bigint {
  if (!canCharge(money)) return 0n;
  const due = dueOf(owed, leastDue)[owed.open.findIndex((invoice) => invoice.id === invoiceId)] ?? 0n;
  return due - (due % nanoPerCent);
}

/** After an order that came to nothing the next one waits an hour, after each further one twice as long, at most a day. */
const mustWait = ({ count, agoMs }: Unmade): boolean =>
  count > 0 && agoMs < Math.min(24, 2 ** Math.min(count - 1, 5)) * hourMs;
