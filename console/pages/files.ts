import type { Responses } from "../../proto/gen/responses.ts";
import { useApi } from "../api.ts";
import { bytes } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useGet } from "../loaded.ts";
import { Act, Ago, Form } from "../parts/controls.ts";
import { actions, type Column, Table } from "../parts/table.ts";

export type StoredFile = FilePage["data"][number];

export type FilePage = Responses["GET /v1/files"];

export const contentOf = (id: string): string => `/v1/files/${encodeURIComponent(id)}/content`;

export function Files(): View {
  const api = useApi();
  const files = useGet<FilePage>("/v1/files?limit=1000", 15_000);
  const upload = (_fields: object, form: FormData) => {
    form.set("purpose", "batch");
    return files.after(api.call("POST", "/v1/files", form));
  };
  const columns: readonly Column<StoredFile>[] = [
    {
      name: "File",
      value: (one) => one.filename,
      show: (one) =>
        html`<a href=${contentOf(one.id)} download=${one.filename}>${one.filename}</a><br /><code>${one.id}</code>`,
    },
    {
      name: "Purpose",
      value: (one) => one.purpose,
      show: (one) => (one.purpose === "batch" ? "batch input" : "batch results"),
    },
    { name: "Size", value: (one) => one.bytes, show: (one) => bytes(one.bytes) },
    { name: "Created", value: (one) => one.created_at, show: (one) => html`<${Ago} at=${one.created_at} />` },
    { name: "Expires", value: (one) => one.expires_at, show: (one) => html`<${Ago} at=${one.expires_at} />` },
    actions(
      (one) => html`<${Act} label="Delete" command=${`stoker file delete ${one.id}`}
        sure=${`Delete ${one.filename}? This cannot be undone. A file in use by a batch cannot be deleted.`}
        onAct=${() => files.after(api.call("DELETE", `/v1/files/${encodeURIComponent(one.id)}`))} />`,
    ),
  ];
  return html`${shown(
    files,
    ({ data: rows }) => html`<${Table} name="files" rows=${rows} columns=${columns} keyOf=${(one: StoredFile) => one.id}
      empty=${html`No files. Upload a file of requests for a <a href="/console/batches">batch</a>.`} />`,
  )}
    <h2>Upload a file</h2>
    <${Form} act="Upload" done="Uploaded." onSend=${upload}>
      <label>Batch requests, one JSON object per line<input type="file" name="file" accept=".jsonl,.json,.txt" required />
        <small>Up to 200 MB, kept for 30 days. <code class="command">stoker file upload requests.jsonl</code></small></label>
    <//>`;
}
