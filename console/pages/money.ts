// Ledger balance, holds, losses and top spenders.
import type { Responses } from "../../proto/gen/responses.ts";
import { count, usd } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useGet } from "../loaded.ts";
import { type Column, Table } from "../parts/table.ts";

type Spender = Overview["top_spenders"][number];

type Overview = Responses["GET /v1/admin/money"];

export function Money(): View {
  const overview = useGet<Overview>("/v1/admin/money", 15_000);
  return shown(
    overview,
    (money) => html`<p class="large">${
      money.imbalance_usd === 0
        ? "● The ledger is balanced."
        : html`<span class="refused" role="alert">✕ The ledger is out of balance by ${usd(money.imbalance_usd)}. This is a defect: keep the logs and report it.</span>`
    }</p>
      <dl>
        <dt>Held for requests</dt><dd>${usd(money.leased_usd)} in ${count(money.open_leases)} leases</dd>
        <dt>Lost in the last hour</dt><dd>${money.loss_last_hour_usd === 0 ? "nothing" : `▲ ${usd(money.loss_last_hour_usd)} of usage was not charged`}</dd>
        <dt>Suspended accounts</dt><dd>${
          money.suspended.length === 0
            ? "none"
            : money.suspended.map(({ reason, accounts }) => `${reason}: ${count(accounts)}`).join(", ")
        }</dd>
      </dl>
      <h2>Top spenders in ${money.month}</h2>
      <${Table} name="spenders" rows=${money.top_spenders} columns=${columns} keyOf=${(one: Spender) => one.uid}
        empty="No spending this month." />`,
  );
}

const columns: readonly Column<Spender>[] = [
  { name: "Account", value: (one) => one.display_name },
  { name: "E-mail", value: (one) => one.email },
  { name: "Id", value: (one) => one.uid, show: (one) => html`<code>${one.uid}</code>` },
  { name: "Requests", value: (one) => one.requests, show: (one) => count(one.requests) },
  { name: "Spent", value: (one) => one.spent_usd, show: (one) => usd(one.spent_usd) },
];
