// Batches with progress and results. Creating one requires an API key, which the browser does not have.
import type { Responses } from "../../proto/gen/responses.ts";
import { useApi } from "../api.ts";
import { count } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useGet } from "../loaded.ts";
import { Act, Ago, Code, Status } from "../parts/controls.ts";
import { actions, type Column, Table } from "../parts/table.ts";
import { serverUrl } from "../visitor.ts";
import { contentOf, type FilePage, type StoredFile } from "./files.ts";

type Batch = Responses["GET /v1/batches/{batch_id}"];

const running = ["validating", "in_progress", "finalizing"];

export function Batches(): View {
  const api = useApi();
  const batches = useGet<{ readonly data: readonly Batch[] }>("/v1/batches?limit=100", 5000);
  const columns: readonly Column<Batch>[] = [
    {
      name: "Batch",
      value: (one) => one.id,
      show: (one) => html`<code>${one.id}</code><br /><span class="quiet">${one.model ?? ""} ${one.endpoint}</span>`,
    },
    { name: "Status", value: (one) => one.status, show: (one) => html`<${Status} of=${one.status} />` },
    {
      name: "Completed",
      value: (one) => one.request_counts.completed,
      show: ({ request_counts: lines }) =>
        html`${count(lines.completed)} of ${count(lines.total)}${lines.failed > 0 && html`, ✕ ${count(lines.failed)} failed`}`,
    },
    { name: "Reason", value: reasonOf },
    {
      name: "Results",
      value: (one) => one.output_file_id ?? "",
      show: (
        one,
      ) => html`${one.output_file_id && html`<a href=${contentOf(one.output_file_id)} download=${`${one.id}.jsonl`}>results</a> `}
        ${one.error_file_id && html`<a href=${contentOf(one.error_file_id)} download=${`${one.id}-errors.jsonl`}>failures</a>`}`,
    },
    { name: "Created", value: (one) => one.created_at, show: (one) => html`<${Ago} at=${one.created_at} />` },
    actions(
      (one) =>
        running.includes(one.status) &&
        html`<${Act} label="Cancel" command=${`stoker batch cancel ${one.id}`}
          sure="Cancel this batch? Completed requests are kept and billed."
          onAct=${() => batches.after(api.call("POST", `/v1/batches/${encodeURIComponent(one.id)}/cancel`))} />`,
    ),
  ];
  return html`${shown(
    batches,
    ({ data: rows }) => html`<${Table} name="batches" rows=${rows} columns=${columns} keyOf=${(one: Batch) => one.id}
      empty=${html`No batches. A batch runs the requests of a <a href="/console/files">file</a> in the background within 24 hours, at a lower price.`} />`,
  )}<${CreateCommands} />`;
}

function reasonOf({ errors }: Batch): string {
  const [first, ...others] = errors?.data ?? [];
  if (!first) return "";
  const line = first.line === null ? "" : `Line ${first.line}: `;
  return `${line}${first.message}${others.length > 0 ? ` (and ${others.length} more)` : ""}`;
}

function CreateCommands(): View {
  const files = useGet<FilePage>("/v1/files?purpose=batch&limit=1");
  return html`<h2>Create a batch</h2>
    <p>A batch is billed to the API key that creates it. Use the command line or the API:</p>
    ${shown(files, ({ data: [newest] }) => html`<${Code} text=${"stoker batch create requests.jsonl --wait"} /><${Code} text=${curlOf(newest)} />`)}`;
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
