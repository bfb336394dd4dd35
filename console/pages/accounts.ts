import { useState } from "preact/hooks";
import { useApi } from "../api.ts";
import { usd } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";
import { Ago } from "../parts/ago.ts";
import { Field, Form } from "../parts/form.ts";
import { type Column, Table } from "../parts/table.ts";

interface Account {
  readonly uid: string;
  readonly email: string;
  readonly display_name: string;
  readonly is_admin: boolean;
  readonly suspended: boolean;
  readonly suspend_reason: string | null;
  readonly funds_usd: number | null;
  readonly spent_usd: number;
  readonly created_at: number;
}

interface Page {
  readonly accounts: readonly Account[];
  readonly next_cursor: string | null;
}

export function Accounts(): View {
  const api = useApi();
  const [chosen, setChosen] = useState("");
  // One per act: a click too many credits nothing twice.
  const [reference, setReference] = useState(newReference);
  const [credit, setCredit] = useState("0");
  // As many as a person looks through; a search on the server finds the others.
  const accounts = useLoaded(() => api.call<Page>("GET", "/v1/admin/accounts?limit=200"), [api], 30_000);
  const act = async ({ uid = "", what, note, amount, reference }: Readonly<Record<string, string>>) => {
    const path = `/v1/admin/accounts/${encodeURIComponent(uid)}`;
    if (what === "credit")
      await api.call(
        "POST",
        `${path}/credit`,
        { amount_usd: Number(amount), note },
        { "idempotency-key": reference ?? "" },
      );
    else await api.call("POST", `${path}/${what}`, { note });
    setReference(newReference());
    // Whoever presses once more gives nothing once more.
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
      name: "Standing",
      value: (one) => (one.suspended ? `suspended: ${one.suspend_reason}` : "good"),
      show: (one) => (one.suspended ? `▲ suspended: ${one.suspend_reason}` : "● good"),
    },
    { name: "Made", value: (one) => one.created_at, show: (one) => html`<${Ago} at=${one.created_at} />` },
    {
      name: "",
      value: () => null,
      show: (one) =>
        html`<button type="button" class="second small" onClick=${() => setChosen(one.uid)}>Choose</button>`,
    },
  ];
  return shown(
    accounts,
    ({ accounts: rows, next_cursor: more }) => html`
    <${Table} name="accounts" rows=${rows} columns=${columns} keyOf=${(one: Account) => one.uid} empty="No account." />
    ${more && html`<p class="quiet">The newest 200. <code>stoker admin account list --search TEXT</code> finds the others.</p>`}
    <h2>Act on an account</h2>
    <${Form} act="Do it" done="Done." onSend=${act}>
      <${Field} label="Account" name="uid" value=${chosen} onValue=${setChosen} required />
      <label>What<select name="what"><option value="credit">give credit</option><option value="suspend">suspend</option><option value="lift">lift every suspension</option></select></label>
      <${Field} label="Credit, USD" name="amount" type="number" step="0.01" value=${credit} onValue=${setCredit} required hint="Negative takes back." />
      <${Field} label="Reference of the credit" name="reference" hint="It is given once per reference, however often it is sent." value=${reference}
        onValue=${setReference} />
      <${Field} label="Note, for the audit trail" name="note" maxlength="1000" required />
    <//>`,
  );
}

const newReference = (): string => `console-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
