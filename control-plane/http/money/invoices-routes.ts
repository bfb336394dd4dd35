import { Type } from "typebox";
import type { Endpoints } from "../core/endpoint.ts";
import { originOf } from "../core/origin.ts";
import type { MoneyFeatures } from "./features.ts";
import { invoicePage, invoicePageHeaders } from "./invoice-page.ts";
import { InvoiceList, InvoiceQuery } from "./payment-schemas.ts";
import { renderInvoice } from "./render-payment.ts";

export function addInvoiceRoutes(endpoints: Endpoints, deps: MoneyFeatures): void {
  const own = endpoints.with({ tag: "billing", access: "key" });
  const open = endpoints.with({ tag: "billing", access: "public" });

  own.get("/payment/invoices", {
    summary: "List invoices of closed months, newest first",
    query: InvoiceQuery,
    answer: InvoiceList,
    refusals: [404],
    // Its links open without a key.
    holdsSecrets: true,
    async handler({ caller, query, reply }) {
      if (query.invoice_type !== undefined && query.invoice_type !== "usage")
        return { invoices: [], has_more: false, next_cursor: null };
      const found = await deps.invoices.list(caller.account, query.limit ?? 10, query.starting_after);
      const origin = originOf(deps.publicUrl, reply.request);
      return {
        invoices: found.invoices.map((invoice) => renderInvoice(invoice, origin)),
        has_more: found.hasMore,
        next_cursor: found.hasMore ? (found.invoices.at(-1)?.id ?? null) : null,
      };
    },
  });

  open.get("/invoices/:invoice_id", {
    summary: "Get an invoice as a page, by its signed link",
    query: Type.Object({ sig: Type.String() }),
    answer: Type.String({ description: "HTML" }),
    refusals: [404],
    async handler({ params, query, reply }) {
      const page = invoicePage(await deps.invoices.page(params.invoice_id, query.sig));
      reply.headers(invoicePageHeaders).serializer((text: string) => text);
      return page;
    },
  });
}
