// Requests that have ended, newest first: figures, and nothing of what was asked or answered.
import { useState } from "preact/hooks";
import { useApi } from "../api.ts";
import { count, usdOfCents } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";
import { Ago } from "../parts/ago.ts";
import { Choice } from "../parts/choice.ts";
import { Field, Form } from "../parts/form.ts";
import { type Column, Table } from "../parts/table.ts";
import { go, useFilter } from "../place.ts";
import { endingOf, type LoggedRequest } from "../request-log.ts";

interface Page {
  readonly requests: readonly LoggedRequest[];
  readonly has_more: boolean;
}

const periods = [
  ["", "7 days"],
  ["now-1h", "hour"],
  ["now-24h", "24 hours"],
  ["now-60d", "60 days"],
] as const;
const outcomes = [
  ["", "all"],
  ["true", "those that failed"],
] as const;

export function RequestLog(): View {
  return html`<${Search} folder="/request-log" />
    <${List} path="/v1/requests" folder="/request-log"
      empty=${html`No request in this time. <a href="/console">Make a first call</a>; it stands here within seconds of its end.`} />`;
}

/** Of one account at a time: whose it is, is asked first. */
export function AnyRequestLog(): View {
  const [account, setAccount] = useFilter("account");
  return html`<${Search} folder="/any-request-log" />
    <${Form} act="List its requests" onSend=${async ({ whose = "" }: Readonly<Record<string, string>>) => setAccount(whose.trim())}>
      <${Field} label="Account" name="whose" maxlength="64" value=${account} placeholder="u:…" required
        hint=${html`As <a href="/console/accounts">Accounts</a> names it.`} />
    <//>
    ${account === "" ? html`<p class="quiet">Name an account to list its requests, or a request to see its attempts.</p>` : html`<${List} key=${account} path="/v1/admin/requests" account=${account} folder="/any-request-log" empty="This account has no request in this time." />`}`;
}

function Search({ folder }: { folder: string }): View {
  const find = async ({ id = "" }: Readonly<Record<string, string>>) =>
    go(`${folder}/${encodeURIComponent(id.trim())}`);
  return html`<${Form} act="Find the request" onSend=${find}>
    <${Field} label="x-request-id of an answer" name="id" maxlength="256" required hint="Every answer has one; so does every error's text." />
  <//>`;
}

interface ListProps {
  readonly path: string;
  readonly account?: string;
  readonly folder: string;
  readonly empty: View;
}

function List({ path, account = "", folder, empty }: ListProps): View {
  const api = useApi();
  const [from, setFrom] = useFilter("from");
  const [failed, setFailed] = useFilter("failed");
  // The ids that the pages before this one ended with.
  const [ends, setEnds] = useState<readonly string[]>([]);
  const after = ends.at(-1) ?? "";
  const page = useLoaded(() => {
    const filter = Object.entries({ account, from, failed, after, limit: "100" }).filter(([, value]) => value !== "");
    return api.call<Page>("GET", `${path}?${new URLSearchParams(filter)}`);
  }, [api, path, account, from, failed, after]);
  const choose = (set: (value: string) => void) => (value: string) => {
    setEnds([]);
    set(value);
  };
  return html`<div class="bar">
      <${Choice} label="The last" value=${from} options=${periods} onChoice=${choose(setFrom)} />
      <${Choice} label="Show" value=${failed} options=${outcomes} onChoice=${choose(setFailed)} />
      <button type="button" class="second small" onClick=${page.reload}>Look again</button>
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
  { name: "When", value: (one) => one.created_at, show: (one) => html`<${Ago} at=${one.created_at} />` },
  { name: "Model", value: (one) => one.model },
  {
    name: "Outcome",
    value: (one) => endingOf(one.end_reason).is,
    show: (one) => `${endingOf(one.end_reason).isFailure ? "✕" : "●"} ${endingOf(one.end_reason).is}`,
  },
  { name: "ms to first byte", value: (one) => one.first_byte_ms },
  { name: "ms in all", value: (one) => one.total_ms },
  { name: "Tokens in", value: (one) => one.input_tokens, show: (one) => count(one.input_tokens) },
  { name: "Tokens out", value: (one) => one.output_tokens, show: (one) => count(one.output_tokens) },
  { name: "USD", value: (one) => one.cost / 100, show: (one) => usdOfCents(one.cost) },
];
