// Audit log, newest first.

import { useState } from "preact/hooks";
import type { Responses } from "../../proto/gen/responses.ts";
import { useApi } from "../api.ts";
import { html, type View } from "../html.ts";
import { shown, useGet } from "../loaded.ts";
import { Ago, Field, type Fields, Form } from "../parts/controls.ts";
import { type Column, Table } from "../parts/table.ts";
import { useFilter } from "../place.ts";

type Entry = Page["entries"][number];

type Page = Responses["GET /v1/admin/audit"];

export function Audit(): View {
  const _api = useApi();
  const [account, setAccount] = useFilter("account");
  const [action, setAction] = useFilter("action");
  // Cursors of the visited pages; the last one is the current page. Empty: the first page.
  const [cursors, setCursors] = useState<readonly string[]>([]);
  const cursor = cursors.at(-1) ?? "";
  const filter = Object.entries({ account, action, cursor, limit: "100" }).filter(([, value]) => value !== "");
  const page = useGet<Page>(`/v1/admin/audit?${new URLSearchParams(filter)}`);
  const find = async ({ account: newAccount = "", action: newAction = "" }: Fields) => {
    setCursors([]);
    setAccount(newAccount.trim());
    setAction(newAction.trim());
  };
  return html`<${Form} act="Search" onSend=${find}>
      <${Field} label="Account" name="account" maxlength="64" value=${account} placeholder="u:…" hint="Actions by or on this account." />
      <${Field} label="Action" name="action" maxlength="64" value=${action} placeholder="account.suspend or account" />
      <p><code class="command">stoker admin audit${account && ` --account ${account}`}${action && ` --action ${action}`}</code></p>
    <//>
    ${shown(
      page,
      ({
        entries,
        next_cursor: next,
      }) => html`<${Table} name="audit" rows=${entries} columns=${columns} keyOf=${(one: Entry) => one.id}
        empty="No matching entries." />
      <p>${cursors.length > 0 && html`<button type="button" class="second" onClick=${() => setCursors(cursors.slice(0, -1))}>Newer</button> `}
        ${next !== null && html`<button type="button" class="second" onClick=${() => setCursors([...cursors, next])}>Older</button>`}</p>`,
    )}`;
}

const columns: readonly Column<Entry>[] = [
  { name: "Time", value: (one) => one.at, show: (one) => html`<${Ago} at=${one.at} />` },
  {
    name: "Actor",
    value: (one) => one.actor,
    show: (one) => html`<code>${one.actor}</code><br /><small>${one.ip}</small>`,
  },
  { name: "Action", value: (one) => one.action },
  { name: "Subject", value: (one) => one.subject, show: (one) => html`<code>${one.subject}</code>` },
  {
    name: "Account",
    value: (one) => one.account ?? "",
    show: (one) => one.account && html`<code>${one.account}</code>`,
  },
  { name: "Note", value: (one) => one.note },
  {
    name: "Before and after",
    value: (one) => `${jsonText(one.before)} ${jsonText(one.after)}`,
    show: (one) =>
      (one.before !== null || one.after !== null) &&
      html`<details><summary>Show</summary><pre class="log">${jsonText(one.before)}${"\n→ "}${jsonText(one.after)}</pre></details>`,
  },
];

const jsonText = (value: unknown): string => (value === null || value === undefined ? "–" : JSON.stringify(value));
