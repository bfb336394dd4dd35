import { useState } from "preact/hooks";
import type { Responses } from "../../proto/gen/responses.ts";
import { useApi } from "../api.ts";
import { usd } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useGet } from "../loaded.ts";
import { Ago, Field, type Fields, Form } from "../parts/controls.ts";
import { actions, type Column, Table } from "../parts/table.ts";

type Account = Page["accounts"][number];

type Page = Responses["GET /v1/admin/accounts"];

export function Accounts(): View {
  const api = useApi();
  const [chosen, setChosen] = useState("");
  // Idempotency key of the credit, so that a repeated click credits once.
  const [reference, setReference] = useState(newReference);
  const [credit, setCredit] = useState("0");
  // The newest 200. The CLI searches all accounts on the server.
  const accounts = useGet<Page>("/v1/admin/accounts?limit=200", 30_000);
  const act = async ({ uid = "", what, note, amount, reference }: Fields) => {
    const path = `/v1/admin/accounts/${encodeURIComponent(uid)}`;
    if (what === "credit")
      await api.call(
        "POST",
        `${path}/credit`,
        { amount_usd: Number(amount), note },
        { "idempotency-key": reference ?? "" },
      );
    else if (what === "factors") await api.call("DELETE", `${path}/factors`);
    else await api.call("POST", `${path}/${what}`, { note });
    setReference(newReference());
    // Reset, so that a second click grants nothing.
    setCredit("0");
    await accounts.reload();
  };
  const columns: readonly Column<Account>[] = [
    {
      name: "Account",
      value: (one) => one.display_name,
      show: (one) => html`${one.display_name}${one.is_admin && " (operator)"}<br /><code>${one.uid}</code>`,
    },
    { name: "E-mail", value: (one) => one.email },
    {
      name: "Funds",
      value: (one) => one.funds_usd ?? 0,
      show: (one) => (one.funds_usd === null ? "no limit" : usd(one.funds_usd)),
    },
    { name: "Spent", value: (one) => one.spent_usd, show: (one) => usd(one.spent_usd) },
    {
      name: "Status",
      value: (one) => (one.suspended ? `suspended: ${one.suspend_reason}` : "active"),
      show: (one) => (one.suspended ? `▲ suspended: ${one.suspend_reason}` : "● active"),
    },
    { name: "Created", value: (one) => one.created_at, show: (one) => html`<${Ago} at=${one.created_at} />` },
    actions(
      (one) => html`<button type="button" class="second small" onClick=${() => setChosen(one.uid)}>Select</button>`,
    ),
  ];
  return shown(
    accounts,
    ({ accounts: rows, next_cursor: more }) => html`
    <${Table} name="accounts" rows=${rows} columns=${columns} keyOf=${(one: Account) => one.uid} empty="No accounts." />
    ${more && html`<p class="quiet">Only the newest 200 accounts are shown. Search all accounts with <code>stoker admin account list --search TEXT</code>.</p>`}
    <h2>Change an account</h2>
    <${Form} act="Apply" done="Applied." onSend=${act}>
      <${Field} label="Account" name="uid" value=${chosen} onValue=${setChosen} required />
      <label>Action<select name="what"><option value="credit">Grant credit</option><option value="suspend">Suspend</option><option value="lift">Lift all suspensions</option>
        <option value="factors">Remove second factors</option></select></label>
      <${Field} label="Credit (USD)" name="amount" type="number" step="0.01" value=${credit} onValue=${setCredit} required hint="A negative amount is a correction." />
      <${Field} label="Reference" name="reference" hint="Each reference is credited once." value=${reference}
        onValue=${setReference} />
      <${Field} label="Note for the audit log" name="note" maxlength="1000" required />
    <//>
    <${SignInPolicy} />`,
  );
}

const newReference = (): string => `console-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;

type Policy = Responses["GET /v1/admin/sign-in-policy"];

const policyPath = "/v1/admin/sign-in-policy";
const choices = [
  ["none", "no accounts"],
  ["operators", "operator accounts"],
  ["all", "all accounts"],
] as const;

function SignInPolicy(): View {
  const api = useApi();
  const policy = useGet<Policy>(policyPath);
  const set = ({ required }: Fields) => policy.after(api.call("PUT", policyPath, { second_factor: required }));
  return html`<h2>Sign-in</h2>${shown(
    policy,
    ({ second_factor: required }) => html`<${Form} act="Save policy" done="Saved." onSend=${set}>
      <label>Require a second factor for<select name="required">${choices.map(
        ([value, text]) => html`<option value=${value} selected=${value === required}>${text}</option>`,
      )}</select><small>Accounts without one can then only set one up. API keys keep working.</small></label>
    <//>`,
  )}`;
}
