// Finished requests, newest first, without their content.

import { useState } from "preact/hooks";
import type { Responses } from "../../proto/gen/responses.ts";
import { count, usdOfCents } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useGet } from "../loaded.ts";
import { Ago, Choice, Field, type Fields, Form } from "../parts/controls.ts";
import { type Column, Table } from "../parts/table.ts";
import { go, useFilter } from "../place.ts";
import { endingOf, type LoggedRequest } from "../request-log.ts";

type Page = Responses["GET /v1/requests"];

const periods = [
  ["", "7 days"],
  ["now-1h", "hour"],
  ["now-24h", "24 hours"],
  ["now-60d", "60 days"],
] as const;
const outcomes = [
  ["", "all"],
  ["true", "failed"],
] as const;

export function RequestLog(): View {
  return html`<${Search} folder="/request-log" />
    <${List} path="/v1/requests" folder="/request-log"
      empty=${html`No requests in this period. <a href="/console">Send a request</a>; it appears seconds after it ends.`} />`;
}

/** Requests of one account, chosen first. */
export function AnyRequestLog(): View {
  const [account, setAccount] = useFilter("account");
  return html`<${Search} folder="/any-request-log" />
    <${Form} act="Show requests" onSend=${async ({ chosen = "" }: Fields) => setAccount(chosen.trim())}>
      <${Field} label="Account" name="chosen" maxlength="64" value=${account} placeholder="u:…" required
        hint=${html`Account id, see <a href="/console/accounts">Accounts</a>.`} />
    <//>
    ${account === "" ? html`<p class="quiet">Enter an account to list its requests, or a request id to see its attempts.</p>` : html`<${List} key=${account} path="/v1/admin/requests" account=${account} folder="/any-request-log" empty="No requests of this account in this period." />`}`;
}

function Search({ folder }: { folder: string }): View {
  const find = async ({ id = "" }: Fields) => go(`${folder}/${encodeURIComponent(id.trim())}`);
  return html`<${Form} act="Find request" onSend=${find}>
    <${Field} label="Request id (x-request-id)" name="id" maxlength="256" required hint="In the headers of every response and in every error message." />
  <//>`;
}

interface ListProps {
  readonly path: string;
  readonly account?: string;
  readonly folder: string;
  readonly empty: View;
}

function List({ path, account = "", folder, empty }: ListProps): View {
  const [from, setFrom] = useFilter("from");
  const [failed, setFailed] = useFilter("failed");
  // Last request ids of the previous pages.
  const [ends, setEnds] = useState<readonly string[]>([]);
  const after = ends.at(-1) ?? "";
  const filter = Object.entries({ account, from, failed, after, limit: "100" }).filter(([, value]) => value !== "");
  const page = useGet<Page>(`${path}?${new URLSearchParams(filter)}`);
  const choose = (set: (value: string) => void) => (value: string) => {
    setEnds([]);
    set(value);
  };
  return html`<div class="bar">
      <${Choice} label="Last" value=${from} options=${periods} onChoice=${choose(setFrom)} />
      <${Choice} label="Show" value=${failed} options=${outcomes} onChoice=${choose(setFailed)} />
      <button type="button" class="second small" onClick=${page.reload}>Refresh</button>
    </div>
    ${shown(
      page,
      ({ requests, has_more: hasMore }) => html`<${Table} name="requests" rows=${requests} columns=${columnsOf(folder)}
        keyOf=${(one: LoggedRequest) => `${one.request_id} ${one.attempt}`} empty=${empty} />
      <p>${ends.length > 0 && html`<button type="button" class="second" onClick=${() => setEnds(ends.slice(0, -1))}>Newer</button> `}
        ${hasMore && html`<button type="button" class="second" onClick=${() => setEnds([...ends, requests.at(-1)?.request_id ?? ""])}>Older</button>`}</p>`,
    )}`;
}

const columnsOf = (folder: string): readonly Column<LoggedRequest>[] => [
  {
    name: "Request",
    value: (one) => one.request_id,
    show: (one) =>
      html`<a href=${`/console${folder}/${encodeURIComponent(one.request_id)}`}><code>${one.request_id}</code></a>`,
  },
  { name: "Time", value: (one) => one.created_at, show: (one) => html`<${Ago} at=${one.created_at} />` },
  { name: "Model", value: (one) => one.model },
  {
    name: "Outcome",
    value: (one) => endingOf(one.end_reason).label,
    show: (one) => `${endingOf(one.end_reason).isFailure ? "✕" : "●"} ${endingOf(one.end_reason).label}`,
  },
  { name: "First byte (ms)", value: (one) => one.first_byte_ms },
  { name: "Total (ms)", value: (one) => one.total_ms },
  { name: "Tokens in", value: (one) => one.input_tokens, show: (one) => count(one.input_tokens) },
  { name: "Tokens out", value: (one) => one.output_tokens, show: (one) => count(one.output_tokens) },
  { name: "USD", value: (one) => one.cost / 100, show: (one) => usdOfCents(one.cost) },
];
