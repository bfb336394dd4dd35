// Payments of accounts: pages of the provider, top-up settings, terms, and the provider's messages.

import type { AccountId } from "../../proto/ids.ts";
import type { Act } from "../act.ts";
import { type ErrorFacts, invalid, notFound } from "../service-error.ts";
import type { Charges } from "./charges.ts";
import { nanoPerCent, type PaymentProvider } from "./payments.ts";
import type { BillingSettingsStore, Terms, TopupSettings } from "./store.ts";

export const topupRefused = (message: string, facts?: ErrorFacts) => invalid("topup_refused", message, facts);

export const billedAccountGone = () => notFound("account_not_found", "Account not found.");

export interface Paying {
  readonly providerName: PaymentProvider["name"];
  /** URL where the customer changes card and address. Throws paymentProviderUnavailable, billedAccountGone. */
  portal(account: AccountId, returnUrl: string): Promise<string>;
  /** URL of the page where `cents` are paid; null: the operator received a request to credit them. */
  addFunds(account: AccountId, cents: number, returnUrl: string): Promise<string | null>;
  /** Throws topupRefused. */
  setTopup(account: AccountId, topup: TopupSettings, by: Act): Promise<void>;
  /** Throws billedAccountGone. */
  terms(account: AccountId): Promise<Terms>;
  setTerms(account: AccountId, terms: Terms, by: Act): Promise<void>;
  settings: BillingSettingsStore["settings"];
  setAlertTarget: BillingSettingsStore["setAlertTarget"];
  setAlertMail: BillingSettingsStore["setAlertMail"];
  setInvoiceAddress: BillingSettingsStore["setInvoiceAddress"];
  /** Nano-USD by request of this account. Unknown and unsettled requests are missing. */
  requestCosts(account: AccountId, ids: readonly string[]): Promise<ReadonlyMap<string, bigint>>;
  /** Applies a message of the provider. Throws badPaymentEvent, noPaymentEvents. */
  takeEvent(body: Buffer, signature: string): Promise<void>;
}

export function createPaying(deps: {
  readonly provider: PaymentProvider;
  readonly store: BillingSettingsStore;
  readonly charges: Charges;
  readonly updateStatus: (account: AccountId) => Promise<void>;
}): Paying {
  const { provider, store, charges, updateStatus } = deps;

  async function customerOf(account: AccountId): Promise<string | null> {
    const known = await store.customer(account);
    if (!known) throw billedAccountGone();
    if (known.customer !== null) return known.customer;
    const made = await provider.openCustomer(account, known.email);
    if (made !== null) await store.setCustomer(account, made);
    return made;
  }

  return {
    providerName: provider.name,
    portal: async (account, returnUrl) => provider.portal(await customerOf(account), returnUrl),

    async addFunds(account, cents, returnUrl) {
      const customer = await customerOf(account);
      const url = await provider.checkout({ account, customer, amountCents: cents }, returnUrl);
      if (url === null) await charges.replaceRequest(account, BigInt(cents) * nanoPerCent);
      return url;
    },

    async setTopup(account, topup, by) {
      if (topup.isOn && topup.amount < BigInt(provider.minCents) * nanoPerCent)
        throw topupRefused(
          `A top-up needs an amount of at least ${provider.minCents} cents. Set \`amount\` in cents, or disable it with \`enabled\`.`,
          { param: "amount" },
        );
      await store.setTopup(account, topup, by);
      await updateStatus(account);
    },

    async terms(account) {
      const terms = await store.terms(account);
      if (!terms) throw billedAccountGone();
      return terms;
    },

    async setTerms(account, terms, by) {
      if (!(await store.setTerms(account, terms, by))) throw billedAccountGone();
      await updateStatus(account);
    },

    settings: store.settings,
    setAlertTarget: store.setAlertTarget,
    setAlertMail: store.setAlertMail,
    setInvoiceAddress: store.setInvoiceAddress,
    requestCosts: store.requestCosts,

    async takeEvent(body, signature) {
      const event = provider.readEvent(body, signature);
      // Applying news is idempotent; the row records that it was applied completely.
      if (event.news) {
        await charges.take(event.news);
        const account = event.news.kind === "on_file" ? await store.accountOf(event.news.customer) : event.news.account;
        if (account) await updateStatus(account);
      }
      await store.noteEvent(event.id, event.kind);
    },
  };
}
