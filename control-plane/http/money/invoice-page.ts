// An invoice as a printable page: plain HTML without scripts or external content.
import { nano, toUsd } from "../../../proto/money.ts";
import type { InvoicePage } from "../../billing/invoice-queries.ts";
import { monthName } from "../../billing/period.ts";
import { acrossKeys } from "../../billing/usage-line.ts";

export const invoicePageHeaders = {
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

export function invoicePage(invoice: InvoicePage): string {
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
