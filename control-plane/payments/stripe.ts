// Stripe through its own library. Card data never reaches Stoker: people enter it on Stripe's pages, and the result returns
// as signed events.
import { Stripe } from "stripe";
import type { AccountId } from "../../proto/ids.ts";
import {
  badPaymentEvent,
  type ChargeOutcome,
  type PaymentNews,
  type PaymentProvider,
  paymentProviderUnavailable,
} from "../billing/payments.ts";

export interface StripeSettings {
  readonly secretKey: string;
  readonly webhookSecret: string;
  /** Alternative to Stripe's address, for tests. */
  readonly apiBase: string | undefined;
}

const timeoutMs = 20_000;
/** Maximum difference between Stripe's clock and the database's. */
const clocksApartMs = 3_600_000;

/** Stripe's minimum charge in USD: https://docs.stripe.com/currencies#minimum-and-maximum-charge-amounts */
const minCents = 50;

export function createStripePayments(settings: StripeSettings): PaymentProvider {
  const base = settings.apiBase === undefined ? undefined : new URL(settings.apiBase);
  const stripe = new Stripe(settings.secretKey, {
    timeout: timeoutMs,
    maxNetworkRetries: 2,
    telemetry: false,
    ...(base
      ? {
          host: base.hostname,
          port: base.port || (base.protocol === "https:" ? 443 : 80),
          protocol: base.protocol === "https:" ? ("https" as const) : ("http" as const),
        }
      : {}),
  });

  return {
    name: "stripe",
    minCents,

    openCustomer: (account, email) =>
      asking(async () => {
        const customer = await stripe.customers.create(
          { ...(email === "" ? {} : { email }), metadata: { stoker_account: account } },
          // Two concurrent first visits create one customer.
          { idempotencyKey: `customer/${account}` },
        );
        return customer.id;
      }),

    portal: (customer, returnUrl) =>
      asking(async () => {
        const session = await stripe.billingPortal.sessions.create({ customer: customer ?? "", return_url: returnUrl });
        return session.url;
      }),

    checkout: ({ account, customer, amountCents }, returnUrl) =>
      asking(async () => {
        const session = await stripe.checkout.sessions.create({
          mode: "payment",
          ...(customer === null ? {} : { customer }),
          client_reference_id: account,
          billing_address_collection: "required",
          line_items: [
            { quantity: 1, price_data: { currency: "usd", unit_amount: amountCents, product_data: { name: "Funds" } } },
          ],
          // Keep the card for top-ups.
          payment_intent_data: { setup_future_usage: "off_session", metadata: { stoker_account: account } },
          metadata: { stoker_account: account },
          success_url: returnUrl,
          cancel_url: returnUrl,
        });
        return session.url;
      }),

    onFile: (customer) =>
      asking(async () => {
        const methods = await stripe.customers.listPaymentMethods(customer, { limit: 1 });
        const found = await stripe.customers.retrieve(customer);
        const address = "deleted" in found && found.deleted ? null : (found as Stripe.Customer).address;
        return { hasPaymentMethod: methods.data.length > 0, hasBillingAddress: (address?.country ?? null) !== null };
      }),

    charge: (order) =>
      asking(async (): Promise<ChargeOutcome> => {
        const { account, customer, amountCents, chargeId } = order;
        if (customer === null) return { kind: "nothing_on_file" };
        const methods = await stripe.customers.listPaymentMethods(customer, { limit: 1 });
        const method = methods.data[0]?.id;
        if (method === undefined) return { kind: "nothing_on_file" };
        try {
          const intent = await stripe.paymentIntents.create(
            {
              amount: amountCents,
              currency: "usd",
              customer,
              payment_method: method,
              confirm: true,
              off_session: true,
              metadata: { stoker_account: account, stoker_charge: chargeId },
            },
            { idempotencyKey: chargeId },
          );
          return outcomeOf(intent);
        } catch (error) {
          if (error instanceof Stripe.errors.StripeCardError)
            return { kind: "declined", why: error.code ?? "declined" };
          throw error;
        }
      }),

    outcomeOf: (paymentId) => asking(async () => outcomeOf(await stripe.paymentIntents.retrieve(paymentId))),

    find: ({ customer, chargeId, orderedAtMs }) =>
      asking(async () => {
        if (customer === null) return undefined;
        // List instead of search: search lags behind and is not available everywhere.
        const since = Math.floor((orderedAtMs - clocksApartMs) / 1000);
        for await (const intent of stripe.paymentIntents.list({ customer, created: { gte: since }, limit: 100 }))
          if (intent.metadata["stoker_charge"] === chargeId) return outcomeOf(intent);
        return undefined;
      }),

    readEvent(body, signature) {
      let event: Stripe.Event;
      try {
        event = stripe.webhooks.constructEvent(body, signature, settings.webhookSecret);
      } catch (cause) {
        throw badPaymentEvent(cause);
      }
      return { id: event.id, kind: event.type, news: readNews(event) };
    },
  };
}

function outcomeOf(intent: Stripe.PaymentIntent): ChargeOutcome {
  if (intent.status === "succeeded") return { kind: "paid", paymentId: intent.id };
  if (intent.status === "processing") return { kind: "pending", paymentId: intent.id };
  return { kind: "declined", why: intent.last_payment_error?.code ?? intent.status };
}

async function asking<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw paymentProviderUnavailable(error);
  }
}

/** Undefined for irrelevant events, such as payments for another product. */
export function readNews(event: Stripe.Event): PaymentNews | undefined {
  switch (event.type) {
    // Checkout pages cause this event too: credit in one place, under the payment's id.
    case "payment_intent.succeeded": {
      const intent = event.data.object;
      const account = accountOf(intent.metadata);
      if (account === undefined || intent.currency !== "usd") return undefined;
      const { id: paymentId, amount_received: amountCents } = intent;
      return { kind: "paid", account, amountCents, paymentId, chargeId: intent.metadata["stoker_charge"] };
    }
    case "payment_intent.payment_failed": {
      const intent = event.data.object;
      const account = accountOf(intent.metadata);
      const chargeId = intent.metadata["stoker_charge"];
      // After a refused card on the checkout page the customer can try again there.
      if (account === undefined || chargeId === undefined) return undefined;
      return { kind: "declined", account, chargeId, why: intent.last_payment_error?.code ?? "declined" };
    }
    case "payment_method.attached":
    case "payment_method.detached": {
      const before = event.data.previous_attributes as { customer?: string } | undefined;
      return onFile(event.data.object.customer ?? before?.customer ?? null);
    }
    case "customer.updated":
      return onFile(event.data.object.id);
    case "checkout.session.completed":
      return onFile(event.data.object.customer);
    default:
      return undefined;
  }
}

function accountOf(metadata: Stripe.Metadata): AccountId | undefined {
  return metadata["stoker_account"] as AccountId | undefined;
}

function onFile(customer: string | { readonly id: string } | null): PaymentNews | undefined {
  if (customer === null) return undefined;
  return { kind: "on_file", customer: typeof customer === "string" ? customer : customer.id };
}
