import type { PaymentProvider } from "../billing/payments.ts";
import type { ControlPlaneConfig } from "../config.ts";
import { createManualPayments } from "../payments/manual.ts";

/** Stripe where the operator gave its keys, otherwise the operator in person. */
export async function paymentProvider(config: Pick<ControlPlaneConfig, "stripe">): Promise<PaymentProvider> {
  if (!config.stripe) return createManualPayments();
  // Loads 200 modules, a tenth of the time to start.
  const { createStripePayments } = await import("../payments/stripe.ts");
  return createStripePayments(config.stripe);
}
