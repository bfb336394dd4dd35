// The port to whoever takes the money. control-plane/payments/ has the adapters: `manual` (the operator) and `stripe`.
import type { AccountId } from "../../proto/ids.ts";
import { badRequest, notFound, unavailable } from "../service-error.ts";
import type { OnFile } from "./payment-store.ts";

export interface ChargeOrder {
  readonly account: AccountId;
  /** The provider's id of the customer; null: none is known. */
  readonly customer: string | null;
  readonly amountCents: number;
  /** The same id again is the same charge: nothing is taken twice. */
  readonly chargeId: string;
  readonly purpose: "topup" | "invoice";
}

export type ChargeOutcome =
  | { readonly kind: "paid"; readonly paymentId: string }
  | { readonly kind: "declined"; readonly why: string }
  /** There is no card to charge: nobody refused anything. */
  | { readonly kind: "nothing_on_file" }
  /** The provider will tell later. */
  | { readonly kind: "pending"; readonly paymentId: string }
  /** A person decides: the request stands in a list until then. */
  | { readonly kind: "requested" };

/** Every method throws paymentProviderUnavailable when the provider could not be asked; a charge may then have been made or not. */
export interface PaymentProvider {
  readonly name: "manual" | "stripe";
  /** Less is not taken; at least 1. */
  readonly leastCents: number;
  /** The customer's id, made at the first call; null where there is nothing to make. */
  openCustomer(account: AccountId, email: string): Promise<string | null>;
  /** Where a person changes card and address. */
  portal(customer: string | null, returnUrl: string): Promise<string>;
  /** A page on which the amount is paid; null: there is none, the operator is asked instead. */
  checkout(
    order: { readonly account: AccountId; readonly customer: string | null; readonly amountCents: number },
    returnUrl: string,
  ): Promise<string | null>;
  /** What the provider has of a customer now. */
  onFile(customer: string): Promise<OnFile>;
  charge(order: ChargeOrder): Promise<ChargeOutcome>;
  /** What became of a payment that was pending. */
  outcomeOf(paymentId: string): Promise<ChargeOutcome>;
  /** What became of an order whose answer nobody heard, whenever that was; undefined: no payment was made for it. */
  find(order: ChargeOrder & { readonly orderedAtMs: number }): Promise<ChargeOutcome | undefined>;
  /** What a signed message of the provider says. Throws badPaymentEvent. */
  readEvent(body: Buffer, signature: string): PaymentEvent;
}

export interface PaymentEvent {
  readonly id: string;
  readonly kind: string;
  /** Undefined: nothing that concerns us. */
  readonly news: PaymentNews | undefined;
}

export type PaymentNews =
  | {
      readonly kind: "paid";
      readonly account: AccountId;
      readonly amountCents: number;
      readonly paymentId: string;
      readonly chargeId: string | undefined;
    }
  | { readonly kind: "declined"; readonly account: AccountId; readonly chargeId: string; readonly why: string }
  /** Card or address changed. */
  | { readonly kind: "on_file"; readonly customer: string };

export const paymentProviderUnavailable = (cause: unknown) =>
  unavailable("payment_provider_away", "The payment provider is unavailable. Try again in a minute.", {
    cause,
    retryAfterSeconds: 60,
  });

/** An event that was not signed by the provider, or that cannot be read. */
export const badPaymentEvent = (cause?: unknown) =>
  badRequest("bad_payment_event", "The event is not signed with this installation's webhook secret.", { cause });

export const noPaymentEvents = () =>
  notFound(
    "no_payment_events",
    "This installation accepts no payment events. Set STRIPE_SECRET_KEY and STRIPE_WEBHOOK_SECRET to use Stripe.",
  );

export const nanoPerCent = 10_000_000n;
