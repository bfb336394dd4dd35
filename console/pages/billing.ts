// Funds, limit, top-up and invoices of the account.
import type { Responses } from "../../proto/gen/responses.ts";
import { useApi } from "../api.ts";
import { usd, usdOfCents } from "../format.ts";
import { html, type View } from "../html.ts";
import { type Loaded, shown, useGet } from "../loaded.ts";
import { Act, Ago, Field, type Fields, Form, Status } from "../parts/controls.ts";
import { type Column, Table } from "../parts/table.ts";
import { suspensionOf } from "../words.ts";

type Checklist = Responses["GET /payment/checklist"];

type Invoice = Responses["GET /payment/invoices"]["invoices"][number];

export function Billing(): View {
  const checklist = useGet<Checklist>("/payment/checklist?compute_owed=true", 15_000);
  const invoices = useGet<{ readonly invoices: readonly Invoice[] }>("/payment/invoices?limit=50");
  return html`${shown(checklist, (list) => html`<${Funds} list=${list} /><${Acts} checklist=${checklist} list=${list} />`)}
    <h2>Invoices</h2>
    ${shown(
      invoices,
      ({
        invoices: rows,
      }) => html`<${Table} name="invoices" rows=${rows} columns=${invoiceColumns} keyOf=${(one: Invoice) => one.id}
        empty="No invoices. An invoice is created at the end of each month (UTC)." />`,
    )}`;
}

function Funds({ list }: { list: Checklist }): View {
  // The API returns the balance as a debt.
  const funds = -list.payments_balance - list.recent;
  const reason = list.suspend_reason && suspensionOf(list.suspend_reason);
  return html`<p class="large" id="funds"><strong>${usd(funds)}</strong> ${funds < 0 ? "owed" : "available"}</p>
    <dl>
      <dt>Used since the last invoice</dt><dd>${usd(list.recent)}</dd>
      <dt>Monthly limit</dt><dd>${list.limit === null ? "none" : `${usd(list.limit)}, ${usd(Math.max(0, list.limit - list.recent))} left`}</dd>
      <dt>Automatic top-up</dt><dd>${topupText(list)}</dd>
      <dt>Payment method</dt><dd>${list.payment_method ? "on file" : "none on file"}</dd>
      <dt>Status</dt><dd>${reason ? `▲ ${reason.why} ${reason.act}.` : "● active"}</dd>
    </dl>`;
}

function topupText({ topup, topup_amount, topup_threshold, topup_failed }: Checklist): string {
  if (!topup) return "off";
  const rule = `${usdOfCents(topup_amount)} when funds fall below ${usdOfCents(topup_threshold)}`;
  return topup_failed ? `▲ ${rule}; disabled because the last one failed. Save it again to enable it.` : rule;
}

const cents = (text = ""): number => Math.round(Number(text) * 100);

function Acts({ checklist, list }: { checklist: Loaded<Checklist>; list: Checklist }): View {
  const api = useApi();
  const addFunds = async ({ amount }: Fields) => {
    type Funding = { readonly checkout_url: string | null };
    const { checkout_url: page } = await api.call<Funding>("POST", "/payment/funds", { amount: cents(amount) });
    if (page !== null) location.assign(page);
    await checklist.reload();
  };
  const setLimit = ({ limit = "" }: Fields) =>
    checklist.after(api.call("POST", "/payment/config", { limit: limit === "" ? -1 : Number(limit) }));
  const setTopup = ({ amount, threshold, enabled }: Fields) => {
    const body = { amount: cents(amount), threshold: cents(threshold), enabled: enabled === "on" };
    return checklist.after(api.call("POST", "/payment/topup", body));
  };
  const openPortal = async () => {
    const query = new URLSearchParams({ return_url: `${location.origin}/console/billing` });
    const { url } = await api.call<{ readonly url: string }>("GET", `/payment/billing-portal?${query}`);
    if (new URL(url).pathname === location.pathname)
      throw new Error("No billing portal. The operator of this server credits payments manually.");
    location.assign(url);
  };

  return html`<div class="cards">
    <section><h2>Add funds</h2>
      <${Form} act="Add funds" done="Requested. The operator credits it after payment." onSend=${addFunds}>
        <${Field} label="Amount (USD)" name="amount" type="number" min="1" max="1000000" step="0.01" required />
      <//>
      <${Act} label="Card and address" onAct=${openPortal} />
    </section>
    <section><h2>Monthly limit</h2>
      <${Form} act="Save limit" done="Saved." onSend=${setLimit}>
        <${Field} label="USD per month (UTC)" name="limit" type="number" min="0" step="0.01" placeholder="no limit"
          value=${list.limit ?? ""} hint="Requests are rejected at the limit." />
      <//>
    </section>
    <section><h2>Automatic top-up</h2>
      <${Form} act="Save top-up" done="Saved." onSend=${setTopup}>
        <label class="check"><input type="checkbox" name="enabled" defaultChecked=${list.topup} /> Enabled</label>
        <${Field} label="Amount (USD)" name="amount" type="number" min="0" step="0.01" value=${list.topup_amount / 100} />
        <${Field} label="Threshold (USD)" name="threshold" type="number" min="0" step="0.01"
          value=${list.topup_threshold / 100} />
      <//>
    </section>
  </div>`;
}

const invoiceColumns: readonly Column<Invoice>[] = [
  {
    name: "Month",
    value: (one) => one.period,
    show: (one) => html`<a href=${one.hosted_invoice_url} target="_blank" rel="noopener">${one.period}</a>`,
  },
  { name: "Status", value: (one) => one.status, show: (one) => html`<${Status} of=${one.status} />` },
  { name: "Total", value: (one) => one.total / 100, show: (one) => usdOfCents(one.total) },
  { name: "Amount due", value: (one) => one.amount_due / 100, show: (one) => usdOfCents(one.amount_due) },
  { name: "Due date", value: (one) => one.due_date, show: (one) => html`<${Ago} at=${one.due_date} />` },
];
