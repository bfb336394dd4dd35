import { noPaymentEvents, type PaymentProvider } from "../billing/payments.ts";

/** The operator collects the money outside of Stoker and credits it: charges become requests in the operator's list. */
export function createManualPayments(): PaymentProvider {
  return {
    name: "manual",
    minCents: 1,
    openCustomer: () => Promise.resolve(null),
    // The console's billing page, where the caller came from.
    portal: (_customer, returnUrl) => Promise.resolve(returnUrl),
    checkout: () => Promise.resolve(null),
    onFile: () => Promise.resolve({ hasPaymentMethod: false, hasBillingAddress: false }),
    charge: () => Promise.resolve({ kind: "requested" }),
    outcomeOf: () => Promise.resolve({ kind: "requested" }),
    find: () => Promise.resolve({ kind: "requested" }),
    readEvent() {
      throw noPaymentEvents();
    },
  };
}
