// Translates Stripe events into payment news. Pure.
import type { Stripe } from "stripe";
import type { AccountId } from "../../proto/ids.ts";
import type { PaymentNews } from "../billing/payments.ts";

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
