import type { PaymentProvider } from "../billing/payments.ts";
import type { ControlPlaneConfig } from "../config.ts";
import { createManualPayments } from "../payments/manual.ts";
import { createStripePayments } from "../payments/stripe.ts";

/** Stripe where the operator gave its keys, otherwise the operator in person. */
export function paymentProvider(config: Pick<ControlPlaneConfig, "stripe">): PaymentProvider {
  return config.stripe ? createStripePayments(config.stripe) : createManualPayments();
}
