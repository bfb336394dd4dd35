import { createHmac, timingSafeEqual } from "node:crypto";
import type { AccountId } from "../../proto/ids.ts";
import { notFound } from "../service-error.ts";
import { type Clock, systemClock } from "./clock.ts";
import { dueOf, type Invoice, type InvoiceState, stateOf } from "./invoices.ts";
import type { InvoiceStore, WholeInvoice } from "./store.ts";

export interface InvoiceView extends Invoice, InvoiceState {
  /** Path and query of its public page. */
  readonly pagePath: string;
}

export interface InvoicePage extends InvoiceView, WholeInvoice {}

export interface InvoiceQueries {
  /** Newest first. `startingAfter` is an invoice of the account; throws unknownInvoice when it is not. */
  list(
    account: AccountId,
    limit: number,
    startingAfter: string | undefined,
  ): Promise<{ readonly invoices: readonly InvoiceView[]; readonly hasMore: boolean }>;
  /** Throws unknownInvoice also for another account's. */
  read(account: AccountId, invoiceId: string): Promise<InvoicePage>;
  /** Throws unknownInvoice also for a wrong signature, so that ids cannot be guessed. */
  page(invoiceId: string, signature: string): Promise<InvoicePage>;
}

export const unknownInvoice = () =>
  notFound("invoice_not_found", "Invoice not found. Use a link from your list of invoices.");

export function createInvoiceQueries(deps: {
  readonly store: InvoiceStore;
  /** Signs the links of invoices. */
  readonly linkKey: Buffer;
  /** Nano-USD: less counts as paid. */
  readonly minDue: bigint;
  readonly clock?: Clock;
}): InvoiceQueries {
  const { store, linkKey } = deps;
  const clock = deps.clock ?? systemClock;
  const sign = (invoiceId: string) => createHmac("sha256", linkKey).update(invoiceId).digest();

  async function view<One extends Invoice>(account: AccountId, invoices: readonly One[]) {
    const owed = await store.owed(account);
    const amounts = dueOf(owed, deps.minDue);
    const due = new Map(owed.open.map((invoice, i) => [invoice.id, amounts[i] ?? 0n]));
    return invoices.map((invoice) => ({
      ...invoice,
      ...stateOf(invoice, due.get(invoice.id) ?? 0n, clock.unixMs()),
      pagePath: `/invoices/${invoice.id}?sig=${sign(invoice.id).toString("base64url")}`,
    }));
  }

  async function viewOfOne(invoice: WholeInvoice | undefined): Promise<InvoicePage> {
    const [shown] = invoice ? await view(invoice.account, [invoice]) : [];
    if (!shown) throw unknownInvoice();
    return shown;
  }

  return {
    async list(account, limit, startingAfter) {
      const before = startingAfter === undefined ? undefined : await store.get(startingAfter);
      if (startingAfter !== undefined && before?.account !== account) throw unknownInvoice();
      const found = await store.list(account, limit + 1, before?.month);
      return { invoices: await view(account, found.slice(0, limit)), hasMore: found.length > limit };
    },

    async read(account, invoiceId) {
      const invoice = await store.get(invoiceId);
      if (invoice?.account !== account) throw unknownInvoice();
      return viewOfOne(invoice);
    },

    async page(invoiceId, signature) {
      const given = Buffer.from(signature, "base64url");
      const wanted = sign(invoiceId);
      if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) throw unknownInvoice();
      return viewOfOne(await store.get(invoiceId));
    },
  };
}
