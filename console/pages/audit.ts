// Who did what to whom: append only, the newest first.
import { useState } from "preact/hooks";
import { useApi } from "../api.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";
import { Ago } from "../parts/ago.ts";
import { Field, Form } from "../parts/form.ts";
import { type Column, Table } from "../parts/table.ts";
import { useFilter } from "../place.ts";

interface Entry {
  readonly id: string;
  readonly at: string;
  readonly actor: string;
  readonly action: string;
  readonly subject: string;
  readonly account: string | null;
  readonly ip: string;
  readonly before: unknown;
  readonly after: unknown;
  readonly note: string;
}

interface Page {
  readonly entries: readonly Entry[];
  readonly next_cursor: string | null;
}

export function Audit(): View {
  const api = useApi();
  const [account, setAccount] = useFilter("account");
  const [action, setAction] = useFilter("action");
  // Of the page that is seen; empty: the newest. The ones before it lead back.
  const [cursors, setCursors] = useState<readonly string[]>([]);
  const cursor = cursors.at(-1) ?? "";
  const page = useLoaded(() => {
    const filter = Object.entries({ account, action, cursor, limit: "100" }).filter(([, value]) => value !== "");
    return api.call<Page>("GET", `/v1/admin/audit?${new URLSearchParams(filter)}`);
  }, [api, account, action, cursor]);
  const find = async ({ account: whose = "", action: what = "" }: Readonly<Record<string, string>>) => {
    setCursors([]);
    setAccount(whose.trim());
    setAction(what.trim());
  };
  return html`<${Form} act="Find" onSend=${find}>
      <${Field} label="Account" name="account" maxlength="64" value=${account} placeholder="u:…" hint="Acts of this account or upon it." />
      <${Field} label="Act" name="action" maxlength="64" value=${action} placeholder="account.suspend, or account" />
      <p><code class="command">stoker admin audit${account && ` --account ${account}`}${action && ` --action ${action}`}</code></p>
    <//>
    ${shown(
      page,
      ({
        entries,
        next_cursor: next,
      }) => html`<${Table} name="audit" rows=${entries} columns=${columns} keyOf=${(one: Entry) => one.id}
        empty="Nothing of this kind was done. Leave a field empty to find more." />
      <p>${cursors.length > 0 && html`<button type="button" class="second" onClick=${() => setCursors(cursors.slice(0, -1))}>Newer</button> `}
        ${next !== null && html`<button type="button" class="second" onClick=${() => setCursors([...cursors, next])}>Older</button>`}</p>`,
    )}`;
}

const columns: readonly Column<Entry>[] = [
  { name: "When", value: (one) => one.at, show: (one) => html`<${Ago} at=${one.at} />` },
  {
    name: "Who",
    value: (one) => one.actor,
    show: (one) => html`<code>${one.actor}</code><br /><small>${one.ip}</small>`,
  },
  { name: "Act", value: (one) => one.action },
  { name: "On", value: (one) => one.subject, show: (one) => html`<code>${one.subject}</code>` },
  {
    name: "Of account",
    value: (one) => one.account ?? "",
    show: (one) => one.account && html`<code>${one.account}</code>`,
  },
  { name: "Note", value: (one) => one.note },
  {
    name: "Before and after",
    value: (one) => `${inText(one.before)} ${inText(one.after)}`,
    show: (one) =>
      (one.before !== null || one.after !== null) &&
      html`<details><summary>see</summary><pre class="log">${inText(one.before)}${"\n→ "}${inText(one.after)}</pre></details>`,
  },
];

const inText = (value: unknown): string => (value === null || value === undefined ? "–" : JSON.stringify(value));
