// Port of payment providers. Its adapters are in control-plane/payments/: `manual` (the operator) and `stripe`.
import type { AccountId } from "../../proto/ids.ts";
import { badRequest, notFound, unavailable } from "../service-error.ts";
import type { OnFile } from "./payment-store.ts";

export interface ChargeOrder {
  readonly account: AccountId;
  /** The provider's id of the customer; null: none is known. */
  readonly customer: string | null;
  readonly amountCents: number;
  /** Idempotency key: the same id again is the same charge. */
  readonly chargeId: string;
  readonly purpose: "topup" | "invoice";
}

export type ChargeOutcome =
  | { readonly kind: "paid"; readonly paymentId: string }
  | { readonly kind: "declined"; readonly why: string }
  /** The account has no card to charge. */
  | { readonly kind: "nothing_on_file" }
  /** The provider will report the outcome later. */
  | { readonly kind: "pending"; readonly paymentId: string }
  /** A person decides: the request is listed until then. */
  | { readonly kind: "requested" };

/** Every method throws paymentProviderUnavailable when the provider is unavailable; whether a charge was made is then unknown. */
export interface PaymentProvider {
  readonly name: "manual" | "stripe";
  /** Minimum amount of a charge, in cents; at least 1. */
  readonly minCents: number;
  /** Returns the customer's id, created at the first call; null for a provider without customers. */
  openCustomer(account: AccountId, email: string): Promise<string | null>;
  /** URL where the customer changes card and address. */
  portal(customer: string | null, returnUrl: string): Promise<string>;
  /** URL of a page where the amount is paid; null: there is none, and the operator receives a request. */
  checkout(
    order: { readonly account: AccountId; readonly customer: string | null; readonly amountCents: number },
    returnUrl: string,
  ): Promise<string | null>;
  /** Payment method and address that the provider has of a customer now. */
  onFile(customer: string): Promise<OnFile>;
  charge(order: ChargeOrder): Promise<ChargeOutcome>;
  /** Outcome of a payment that was pending. */
  outcomeOf(paymentId: string): Promise<ChargeOutcome>;
  /** Outcome of an order of any age whose reply was lost; undefined: no payment was made for it. */
  find(order: ChargeOrder & { readonly orderedAtMs: number }): Promise<ChargeOutcome | undefined>;
  /** Reads a signed message of the provider. Throws badPaymentEvent. */
  readEvent(body: Buffer, signature: string): PaymentEvent;
}

export interface PaymentEvent {
  readonly id: string;
  readonly kind: string;
  /** Undefined: not relevant here. */
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

/** The event is not signed by the provider, or is malformed. */
export const badPaymentEvent = (cause?: unknown) =>
  badRequest("bad_payment_event", "The event is not signed with this installation's webhook secret.", { cause });

export const noPaymentEvents = () =>
  notFound(
    "no_payment_events",
    "This installation accepts no payment events. Set STRIPE_SECRET_KEY and STRIPE_WEBHOOK_SECRET to use Stripe.",
  );

export const nanoPerCent = 10_000_000n;
