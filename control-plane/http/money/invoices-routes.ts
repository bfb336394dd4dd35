import { type Static, Type } from "typebox";
import { nano } from "../../../proto/money.ts";
import { unixSecondsOrNull } from "../../../proto/unix-seconds.ts";
import type { InvoicePage, InvoiceView } from "../../billing/invoice-queries.ts";
import { monthName } from "../../billing/period.ts";
import { acrossKeys } from "../../billing/usage-line.ts";
import { inWholeCents, roundedCents } from "../../billing/whole-cents.ts";
import { originOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import type { MoneyFeatures } from "./features.ts";
import { cents, InvoiceBody, InvoiceList, InvoiceQuery, renderInvoice } from "./payment-routes.ts";

const party = {
  name: Type.String(),
  address: Type.String({ description: "Lines; may be empty" }),
};

const WholeInvoice = Type.Interface([InvoiceBody], {
  paid: nullable.integer({ description: "Unix seconds" }),
  currency: Type.String({ enum: ["USD"] }),
  seller: Type.Object(party),
  buyer: Type.Object({ ...party, email: Type.String(), uid: Type.String() }),
  lines: Type.Array(
    Type.Object({
      model: Type.String(),
      task: Type.String(),
      pricing_type: Type.String({
        enum: ["tokens", "uptime", "input_length", "input_character_length", "image_units"],
        description: "What `units` count: tokens, seconds of GPU time, seconds of audio, characters or images",
      }),
      units: Type.Number(),
      discount: nullable.string({ description: "Name and text of the discount" }),
      amount: Type.Number({ description: "Cents, exact" }),
      rounded_amount: Type.Integer({ description: "Whole cents; the lines add up to `rounded_total`" }),
    }),
  ),
  rounded_total: Type.Integer({ description: "Whole cents" }),
  rounded_amount_due: Type.Integer({ description: "Whole cents" }),
});
type WholeInvoice = Static<typeof WholeInvoice>;

export function addInvoiceRoutes(endpoints: Endpoints, deps: MoneyFeatures): void {
  const own = endpoints.with({ tag: "billing", access: "key" });
  const open = endpoints.with({ tag: "billing", access: "public" });
  /** An operator gets no links, because they open without a key. */
  const shown = (invoice: InvoiceView, origin: string, isOperator: boolean) => ({
    ...renderInvoice(invoice, origin),
    ...(isOperator ? { hosted_invoice_url: "" } : {}),
  });

  own.get("/payment/invoices", {
    right: "readMoney",
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
        invoices: found.invoices.map((invoice) => shown(invoice, origin, caller.operator !== undefined)),
        has_more: found.hasMore,
        next_cursor: found.hasMore ? (found.invoices.at(-1)?.id ?? null) : null,
      };
    },
  });

  own.get("/payment/invoices/:invoice_id", {
    right: "readMoney",
    isOpenToOperators: true,
    summary: "Get an invoice with its lines",
    answer: WholeInvoice,
    refusals: [404],
    holdsSecrets: true,
    async handler({ caller, params, reply }) {
      const invoice = await deps.invoices.read(caller.account, params.invoice_id);
      const origin = originOf(deps.publicUrl, reply.request);
      return {
        ...shown(invoice, origin, caller.operator !== undefined),
        ...contentOf(invoice, sellerOf(deps.invoiceSeller, origin)),
      };
    },
  });

  open.get("/invoices/:invoice_id", {
    summary: "Get an invoice as a page, by its signed link",
    query: Type.Object({ sig: Type.String({ maxLength: 128 }) }),
    answer: Type.String({ description: "HTML" }),
    refusals: [404],
    async handler({ params, query, reply }) {
      const invoice = await deps.invoices.page(params.invoice_id, query.sig);
      const seller = sellerOf(deps.invoiceSeller, originOf(deps.publicUrl, reply.request));
      reply.headers(invoicePageHeaders).serializer((text: string) => text);
      return invoicePage(invoice, contentOf(invoice, seller));
    },
  });
}

type Content = Omit<WholeInvoice, keyof Static<typeof InvoiceBody>>;

/** The first line is the name. An installation that names no seller is its host. */
const sellerOf = ([name, ...address]: readonly string[], origin: string) => ({
  name: name ?? new URL(origin).host,
  address: address.join("\n"),
});

function contentOf(invoice: InvoicePage, seller: Content["seller"]): Content {
  const lines = acrossKeys(invoice.lines);
  const rounded = inWholeCents(lines.map((line) => line.cost));
  return {
    paid: unixSecondsOrNull(invoice.paidAtMs),
    currency: "USD",
    seller,
    buyer: { uid: invoice.account, ...invoice.buyer },
    lines: lines.map(({ model, task, pricingType, milliUnits, discount, cost }, index) => ({
      model,
      task,
      pricing_type: pricingType,
      units: Number(milliUnits) / 1000,
      discount: discount && [discount.name, discount.text].filter((text) => text !== "").join(": "),
      amount: cents(nano(cost)),
      rounded_amount: Number(rounded.lines[index]),
    })),
    rounded_total: Number(rounded.total),
    rounded_amount_due: Number(roundedCents(invoice.amountDue)),
  };
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
dt{font-weight:600}dd{margin:0 0 .5rem;white-space:pre-line}small{opacity:.75}@media print{:root{color-scheme:light}body{margin:0}}`;

function invoicePage(invoice: InvoicePage, content: Content): string {
  const period = monthName(invoice.month);
  const { seller, buyer } = content;
  const rows = content.lines.map(
    (line) => `<tr><td>${inHtml(line.model)}${line.discount ? `<br><small>${inHtml(line.discount)}</small>` : ""}</td>
<td>${line.pricing_type}</td><td class="n">${line.units}</td><td class="n">${usd(line.rounded_amount)}</td></tr>`,
  );
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Invoice ${period}</title>
<style>${style}</style></head><body><main>
<h1>Invoice for ${period}</h1>
<dl><dt>Invoice</dt><dd>${inHtml(invoice.id)}</dd>
<dt>From</dt><dd>${inHtml(linesOf(seller.name, seller.address))}</dd>
<dt>To</dt><dd>${inHtml(linesOf(buyer.name, buyer.address, buyer.email, `Account ${buyer.uid}`))}</dd>
<dt>Status</dt><dd>${invoice.status}</dd><dt>Created</dt><dd>${day(invoice.createdAtMs)}</dd><dt>Due</dt><dd>${day(invoice.dueAtMs)}</dd></dl>
<table><caption>Use by model, in USD (months are UTC)</caption>
<thead><tr><th scope="col">Model</th><th scope="col">Priced by</th><th scope="col" class="n">Units</th><th scope="col" class="n">USD</th></tr></thead>
<tbody>${rows.join("\n")}</tbody>
<tfoot><tr><th scope="row" colspan="3">Total</th><td class="n">${usd(content.rounded_total)}</td></tr>
<tr><th scope="row" colspan="3">Still due</th><td class="n">${usd(content.rounded_amount_due)}</td></tr></tfoot></table>
</main></body></html>
`;
}

const linesOf = (...lines: readonly string[]) => lines.filter((line) => line !== "").join("\n");
const usd = (wholeCents: number) => (wholeCents / 100).toFixed(2);
const day = (unixMs: number) => new Date(unixMs).toISOString().slice(0, 10);
const inHtml = (text: string) => text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
