import { describe, expect, it } from "vitest";
import type { HttpDeps } from "../../control-plane/http/core/create-http.ts";
import { fakeFiles, fileId } from "../fakes/file-ports.ts";
import { ada, adminKey } from "../fakes/ports.ts";
import { answerTo, check, type Row } from "./status-row.ts";

const path = `/v1/files/${fileId}`;
const notFound = { error: { code: "file_not_found", type: "invalid_request_error" } };

const send = { "content-type": "multipart/form-data; boundary=b" };
const part = (name: string, value: string, filename?: string) =>
  `--b\r\ncontent-disposition: form-data; name="${name}"${filename === undefined ? "" : `; filename="${filename}"`}\r\n\r\n${value}\r\n`;
const file = part("file", '{"custom_id":"1"}\n', "requests.jsonl");
const form = (...parts: string[]) => `${parts.join("")}--b--\r\n`;
const purpose = part("purpose", "batch");
const whole = form(purpose, file);
const post = (body: string, row: Partial<Row>): Row => ({ call: "POST /v1/files", status: 200, send, body, ...row });
const expiry = (seconds: string) =>
  form(purpose, part("expires_after[anchor]", "created_at"), part("expires_after[seconds]", seconds), file);

const rows: readonly Row[] = [
  post(whole, {
    holds: { object: "file", bytes: 18, filename: "requests.jsonl", purpose: "batch", status: "processed" },
  }),
  post(form(file, purpose), { holds: { bytes: 18 } }),
  post(whole, { call: "POST /v1/compat/files" }),
  post(whole, { call: "POST /v1/openai/files" }),
  post(whole, { status: 401, key: null }),
  post(whole, {
    status: 400,
    send: { "content-type": "application/json" },
    holds: { error: { code: "form_required" } },
  }),
  post(whole.slice(0, -20), { status: 400, holds: { error: { code: "form_invalid" } } }),
  ...["multipart/form-data", "multipart/form-data; boundary="].map((type) =>
    post(whole, { status: 400, send: { "content-type": type }, holds: { error: { code: "form_invalid" } } }),
  ),
  post(form(purpose, part("file", "", "empty.jsonl")), {
    status: 400,
    holds: { error: { code: "empty_file", message: /one JSON object per line/ } },
  }),
  post(form(purpose), { status: 422, holds: { error: { code: "file_missing" } } }),
  post(form(file), { status: 422, holds: { detail: [{ loc: ["body", "purpose"], type: "missing" }] } }),
  post(form(part("purpose", "assistants"), file), { status: 422 }),
  post(expiry("3599"), { status: 422, holds: { error: { message: /from 3600 to 2592000/ } } }),
  post(expiry("2592001"), { status: 422 }),
  post(expiry("soon"), { status: 422 }),
  post(expiry("3600"), {}),
  post(whole, {
    status: 413,
    given: ({ deps }) =>
      Object.assign(deps, { files: fakeFiles(ada.account, { bytes: 10 * 1024 ** 2, batchBytes: 10 }) }),
    holds: { error: { code: "file_too_large", message: /larger than/ } },
  }),
  post(form(purpose, part("file", "x".repeat(2_000_000), "large.jsonl")), {
    status: 413,
    given: ({ deps }) => Object.assign(deps, { files: fakeFiles(ada.account, { bytes: 1024 ** 2 }) }),
    holds: { error: { message: /larger than 1 MiB/ } },
  }),
  post(whole, {
    status: 413,
    given: ({ deps }) => Object.assign(deps, { files: fakeFiles(ada.account, { quotaBytes: 20 }) }),
    holds: { error: { code: "file_quota_used_up" } },
  }),
  { call: "GET /v1/files", status: 200, holds: { object: "list", data: [{ id: fileId }], has_more: false } },
  { call: "GET /v1/compat/files?purpose=batch_output&order=asc&limit=1", status: 200, holds: { data: [] } },
  { call: "GET /v1/files?after=file_none", status: 422, holds: { detail: [{ loc: ["query", "after"] }] } },
  { call: "GET /v1/files?limit=0", status: 422 },
  { call: "GET /v1/files?purpose=assistants", status: 422 },
  { call: "GET /v1/files", status: 401, key: null },
  { call: `GET ${path}`, status: 200, holds: { id: fileId, created_at: 1_786_000_000, expires_at: 1_788_592_000 } },
  { call: `GET ${path}`, status: 401, key: null },
  { call: `GET ${path}`, status: 404, key: adminKey, holds: notFound },
  { call: "GET /v1/files/file_none", status: 404, holds: notFound },
  { call: `GET ${path}/content`, status: 401, key: null },
  { call: `GET ${path}/content`, status: 404, key: adminKey, holds: notFound },
  { call: `DELETE ${path}`, status: 200, holds: { id: fileId, object: "file", deleted: true } },
  { call: `DELETE ${path}`, status: 401, key: null },
  { call: `DELETE ${path}`, status: 404, key: adminKey, holds: notFound },
];

describe("files", () => {
  it.each(rows.map((row) => [`${row.call} -> ${row.status}`, row] as const))("%s", async (_, row) => {
    const { holds, ...rest } = row;
    await check(rest);
    if (holds) expect(matching((await answerTo(row)).json(), holds)).toBe(true);
  });

  it("returns the bytes unchanged with their length", async () => {
    const answer = await answerTo({ call: `GET ${path}/content`, status: 200 });
    expect(answer.statusCode).toBe(200);
    expect(answer.body).toBe("{}\n");
    expect(answer.headers).toMatchObject({ "content-length": "3", "content-type": "application/octet-stream" });
  });

  it("creates one file for repeats under one key, and refuses another file under it", async () => {
    const keyed = { ...send, "idempotency-key": "upload-1" };
    const kept: Partial<HttpDeps> = {};
    const first = await answerTo(post(whole, { send: keyed, given: ({ deps }) => Object.assign(kept, deps) }));
    const given: Row["given"] = ({ deps }) => Object.assign(deps, { files: kept.files, idempotency: kept.idempotency });
    const again = await answerTo(post(whole, { send: keyed, given }));
    expect(again.json()).toEqual(first.json());
    expect(again.headers["idempotent-replayed"]).toBe("true");
    const other = await answerTo(post(form(purpose, part("file", "other", "x")), { send: keyed, given }));
    expect(other.statusCode).toBe(422);
  });
});

/** Every named field is there; a pattern is looked for in a text. */
function matching(found: unknown, wanted: unknown): boolean {
  if (wanted instanceof RegExp) return wanted.test(String(found));
  if (typeof wanted !== "object" || wanted === null) return Object.is(found, wanted);
  if (Array.isArray(wanted) && wanted.length === 0) return Array.isArray(found) && found.length === 0;
  return Object.entries(wanted).every(([key, value]) => matching((found as Record<string, unknown>)?.[key], value));
}
