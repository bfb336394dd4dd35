// How money comes in: pages of the provider, top-up settings, terms, and the provider's messages.
import type { AccountId } from "../../proto/ids.ts";
import { type ErrorFacts, invalid, notFound } from "../service-error.ts";
import type { Charges } from "./charges.ts";
import { nanoPerCent, type PaymentProvider } from "./payments.ts";
import type { BillingSettingsStore, Doer, Terms, TopupSettings } from "./store.ts";

export const topupRefused = (message: string, facts?: ErrorFacts) => invalid("topup_refused", message, facts);

export const billedAccountGone = () => notFound("account_not_found", "Account not found.");

export interface Paying {
  readonly providerName: PaymentProvider["name"];
  /** Where a person changes card and address. Throws paymentProviderUnavailable, billedAccountGone. */
  portal(account: AccountId, returnUrl: string): Promise<string>;
  /** The page on which `cents` are paid; null: the operator was asked to credit them. */
  addFunds(account: AccountId, cents: number, returnUrl: string): Promise<string | null>;
  /** Throws topupRefused. */
  setTopup(account: AccountId, topup: TopupSettings, by: Doer): Promise<void>;
  /** Throws billedAccountGone. */
  terms(account: AccountId): Promise<Terms>;
  setTerms(account: AccountId, terms: Terms, by: Doer): Promise<void>;
  /** Nano-USD by request, of the account's own. Unknown ones, and those not settled yet, are missing. */
  requestCosts(account: AccountId, ids: readonly string[]): Promise<ReadonlyMap<string, bigint>>;
  /** Takes in a message of the provider. Throws badPaymentEvent, noPaymentEvents. */
  takeEvent(body: Buffer, signature: string): Promise<void>;
}

export function createPaying(deps: {
  readonly provider: PaymentProvider;
  readonly store: BillingSettingsStore;
  readonly charges: Charges;
  readonly judge: (account: AccountId) => Promise<void>;
}): Paying {
  const { provider, store, charges, judge } = deps;

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
      if (url === null) await charges.requestAnew(account, BigInt(cents) * nanoPerCent);
      return url;
    },

    async setTopup(account, topup, by) {
      if (topup.isOn && topup.amount < BigInt(provider.leastCents) * nanoPerCent)
        throw topupRefused(
          `A top-up needs an amount of at least ${provider.leastCents} cents. Give \`amount\` in cents, or switch it off with \`enabled\`.`,
          { param: "amount" },
        );
      await store.setTopup(account, topup, by);
      await judge(account);
    },

    async terms(account) {
      const terms = await store.terms(account);
      if (!terms) throw billedAccountGone();
      return terms;
    },

    async setTerms(account, terms, by) {
      if (!(await store.setTerms(account, terms, by))) throw billedAccountGone();
      await judge(account);
    },

    requestCosts: store.requestCosts,

    async takeEvent(body, signature) {
      const event = provider.readEvent(body, signature);
      // Taking news is idempotent by itself; the row is the record that it came, written when it was taken in whole.
      if (event.news) {
        await charges.take(event.news);
        const account = event.news.kind === "on_file" ? await store.accountOf(event.news.customer) : event.news.account;
        if (account) await judge(account);
      }
      await store.noteEvent(event.id, event.kind);
    },
  };
}
