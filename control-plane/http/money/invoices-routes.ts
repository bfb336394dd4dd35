import { Type } from "typebox";
import { nano, toUsd } from "../../../proto/money.ts";
import type { InvoicePage } from "../../billing/invoice-queries.ts";
import { monthName } from "../../billing/period.ts";
import { acrossKeys } from "../../billing/usage-line.ts";
import { originOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import type { MoneyFeatures } from "./features.ts";
import { InvoiceList, InvoiceQuery, renderInvoice } from "./payment-routes.ts";

export function addInvoiceRoutes(endpoints: Endpoints, deps: MoneyFeatures): void {
  const own = endpoints.with({ tag: "billing", access: "key" });
  const open = endpoints.with({ tag: "billing", access: "public" });

  own.get("/payment/invoices", {
    isOpenToOperators: true,
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
        // An operator gets no links, because they open without a key.
        invoices: found.invoices.map((invoice) => ({
          ...renderInvoice(invoice, origin),
          ...(caller.operator === undefined ? {} : { hosted_invoice_url: "" }),
        })),
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

// An invoice as a printable page: plain HTML without scripts or external content.
const invoicePageHeaders = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
  "cache-control": "no-store",
  "referrer-policy": "no-referrer",
  "x-robots-tag": "noindex",
} as const;

const style = `:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:48rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%}caption{text-align:left;font-weight:600;padding:.5rem 0}
th,td{text-align:left;padding:.35rem .75rem .35rem 0;border-bottom:1px solid #8884}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
dt{font-weight:600}dd{margin:0 0 .5rem}small{opacity:.75}`;

function invoicePage(invoice: InvoicePage): string {
  const period = monthName(invoice.month);
  const rows = acrossKeys(invoice.lines).map(
    (
      line,
    ) => `<tr><td>${inHtml(line.model)}${line.discount ? `<br><small>${inHtml(line.discount.name)}: ${inHtml(line.discount.text)}</small>` : ""}</td>
<td>${line.pricingType}</td><td class="n">${Number(line.milliUnits) / 1000}</td><td class="n">${usd(line.cost)}</td></tr>`,
  );
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Invoice ${period}</title>
<style>${style}</style></head><body><main>
<h1>Invoice for ${period}</h1>
<dl><dt>Invoice</dt><dd>${inHtml(invoice.id)}</dd><dt>Account</dt><dd>${inHtml(invoice.account)}</dd>
<dt>Status</dt><dd>${invoice.status}</dd><dt>Created</dt><dd>${day(invoice.createdAtMs)}</dd><dt>Due</dt><dd>${day(invoice.dueAtMs)}</dd></dl>
<table><caption>Use by model, in USD (months are UTC)</caption>
<thead><tr><th scope="col">Model</th><th scope="col">Priced by</th><th scope="col" class="n">Units</th><th scope="col" class="n">USD</th></tr></thead>
<tbody>${rows.join("\n")}</tbody>
<tfoot><tr><th scope="row" colspan="3">Total</th><td class="n">${usd(invoice.total)}</td></tr>
<tr><th scope="row" colspan="3">Still due</th><td class="n">${usd(invoice.amountDue)}</td></tr></tfoot></table>
</main></body></html>
`;
}

/** Formats USD with nine decimals, like the ledger. */
const usd = (amount: bigint) => toUsd(nano(amount)).toFixed(9);
const day = (unixMs: number) => new Date(unixMs).toISOString().slice(0, 10);
const inHtml = (text: string) => text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
