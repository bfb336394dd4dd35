// Batches: how far each is, why it failed, and where its results are. One is made with a key, which a browser has not.
import { useApi } from "../api.ts";
import { count } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";
import { Act } from "../parts/act.ts";
import { Ago } from "../parts/ago.ts";
import { Code } from "../parts/copy.ts";
import { Status } from "../parts/status.ts";
import { type Column, Table } from "../parts/table.ts";
import { serverUrl } from "../visitor.ts";
import { contentOf, type FilePage, type StoredFile } from "./files.ts";

interface Batch {
  readonly id: string;
  readonly endpoint: string;
  readonly model: string | null;
  readonly status: string;
  readonly errors: { readonly data: readonly { readonly line: number | null; readonly message: string }[] } | null;
  readonly output_file_id: string | null;
  readonly error_file_id: string | null;
  readonly created_at: number;
  readonly expires_at: number;
  readonly request_counts: { readonly total: number; readonly completed: number; readonly failed: number };
}

const running = ["validating", "in_progress", "finalizing"];

export function Batches(): View {
  const api = useApi();
  const batches = useLoaded(
    async () => (await api.call<{ readonly data: readonly Batch[] }>("GET", "/v1/batches?limit=100")).data,
    [api],
    5000,
  );
  const columns: readonly Column<Batch>[] = [
    {
      name: "Batch",
      value: (one) => one.id,
      show: (one) => html`<code>${one.id}</code><br /><span class="quiet">${one.model ?? ""} ${one.endpoint}</span>`,
    },
    { name: "State", value: (one) => one.status, show: (one) => html`<${Status} of=${one.status} />` },
    {
      name: "Lines done",
      value: (one) => one.request_counts.completed,
      show: ({ request_counts: lines }) =>
        html`${count(lines.completed)} of ${count(lines.total)}${lines.failed > 0 && html`, ✕ ${count(lines.failed)} failed`}`,
    },
    { name: "Why", value: whyOf },
    {
      name: "Results",
      value: (one) => one.output_file_id ?? "",
      show: (
        one,
      ) => html`${one.output_file_id && html`<a href=${contentOf(one.output_file_id)} download=${`${one.id}.jsonl`}>answers</a> `}
        ${one.error_file_id && html`<a href=${contentOf(one.error_file_id)} download=${`${one.id}-errors.jsonl`}>failures</a>`}`,
    },
    { name: "Made", value: (one) => one.created_at, show: (one) => html`<${Ago} at=${one.created_at} />` },
    {
      name: "",
      value: () => null,
      show: (one) =>
        running.includes(one.status) &&
        html`<${Act} label="Cancel" command=${`stoker batch cancel ${one.id}`}
          sure="Cancel it? No further line is begun; what was answered is kept, and billed."
          onAct=${async () => {
            await api.call("POST", `/v1/batches/${encodeURIComponent(one.id)}/cancel`);
            await batches.reload();
          }} />`,
    },
  ];
  return html`${shown(
    batches,
    (rows) => html`<${Table} name="batches" rows=${rows} columns=${columns} keyOf=${(one: Batch) => one.id}
      empty=${html`No batch yet. It answers the requests of a <a href="/console/files">file</a> in the background within 24 hours, cheaper than one by one.`} />`,
  )}<${Beginning} />`;
}

function whyOf({ errors }: Batch): string {
  const [first, ...others] = errors?.data ?? [];
  if (!first) return "";
  const line = first.line === null ? "" : `Line ${first.line}: `;
  return `${line}${first.message}${others.length > 0 ? ` (and ${others.length} more)` : ""}`;
}

function Beginning(): View {
  const api = useApi();
  const files = useLoaded(async () => (await api.call<FilePage>("GET", "/v1/files?purpose=batch&limit=1")).data, [api]);
  return html`<h2>Begin one</h2>
    <p>Its lines are billed to the key that begins it, so a program or the command line does:</p>
    ${shown(files, ([newest]) => html`<${Code} text=${"stoker batch create requests.jsonl --wait"} /><${Code} text=${curlOf(newest)} />`)}`;
}

const curlOf = (newest: StoredFile | undefined): string =>
  [
    `curl ${serverUrl()}/v1/batches \\`,
    `  -H "Authorization: Bearer $STOKER_API_KEY" \\`,
    `  -H "Content-Type: application/json" \\`,
    `  -d '${JSON.stringify({
      input_file_id: newest?.id ?? "file_...",
      endpoint: "/v1/chat/completions",
      completion_window: "24h",
    })}'`,
  ].join("\n");
