import { Readable } from "node:stream";
import { describe, expect, it } from "vitest";
import type { BatchId } from "../../control-plane/batches/batch.ts";
import { answeredLine } from "../../control-plane/batches/line.ts";
import { fileStoreUnavailable } from "../../control-plane/files/errors.ts";
import { batch, batchId, endedBatchId, messageBatchId } from "../fakes/batch-ports.ts";
import { fileId } from "../fakes/file-ports.ts";
import { adminKey, jwtOfAda } from "../fakes/ports.ts";
import { check, type Row, refuse } from "./status-row.ts";
import {
  browser,
  checkStatuses,
  createCustomer,
  type StatusRow,
  signIn,
  succeed,
  type Values,
  write,
} from "./status-table.ts";

const request = { input_file_id: fileId, endpoint: "/v1/chat/completions", completion_window: "24h" };
const path = `/v1/batches/${batchId}`;
const create = refuse("batches", "create");
const away = fileStoreUnavailable(new Error("x"));
const notFound = { error: { code: "batch_not_found", type: "invalid_request_error" } };
const post = (status: number, change: object, row: Partial<Row> = {}): Row => ({
  call: "POST /v1/batches",
  status,
  body: { ...request, ...change },
  ...row,
});
const metadata = (pairs: number, key = "k", value = "v") =>
  Object.fromEntries(Array.from({ length: pairs }, (_, n) => [`${key}${n}`, value]));

const messageBatches = "/v1/messages/batches";
const messageBatch = `${messageBatches}/${messageBatchId}`;
const message = { model: "org/model", max_tokens: 5, messages: [{ role: "user", content: "hi" }] };
const ofMessages = (status: number, requests: unknown, row: Partial<Row> = {}): Row => ({
  call: `POST ${messageBatches}`,
  status,
  body: { requests },
  ...row,
});
const noBatch = { type: "error", error: { type: "not_found_error", details: { error_code: "batch_not_found" } } };

const messageRows: readonly Row[] = [
  ofMessages(200, [{ custom_id: "a", params: message }], {
    holds: { type: "message_batch", processing_status: "in_progress", results_url: null, ended_at: null },
    given: ({ deps }) => {
      deps.batches.create = async (_caller, params) => batch({ status: "validating", endpoint: params.endpoint });
    },
  }),
  ofMessages(400, undefined, { body: "{" }),
  ofMessages(400, [
    { custom_id: "a", params: message },
    { custom_id: "a", params: message },
  ]),
  ofMessages(400, [{ custom_id: "a", params: { ...message, model: "none" } }]),
  ofMessages(400, [{ custom_id: "a", params: { ...message, stream: true } }], {
    holds: { error: { message: "requests[0]: Batches do not support streaming. Remove `params.stream`." } },
  }),
  ofMessages(
    400,
    [
      { custom_id: "a", params: message },
      { custom_id: "a", params: message },
    ],
    {
      holds: {
        error: { message: "requests[1]: Its `custom_id` is used by an earlier request. Make them unique." },
      },
    },
  ),
  ofMessages(401, [], { key: null }),
  ofMessages(403, [], { key: jwtOfAda }),
  ofMessages(422, []),
  ofMessages(422, [{ custom_id: "a b", params: message }]),
  ofMessages(422, [{ custom_id: "a", params: {} }]),
  {
    call: `GET ${messageBatches}`,
    status: 200,
    holds: { data: [{ id: messageBatchId }], first_id: messageBatchId, has_more: false },
  },
  {
    call: `GET ${messageBatches}?before_id=${messageBatchId}`,
    status: 200,
    holds: { data: [], first_id: null, has_more: false },
  },
  { call: `GET ${messageBatches}?before_id=${messageBatchId}&after_id=${messageBatchId}`, status: 422 },
  { call: `GET ${messageBatches}?before_id=batch_none`, status: 422 },
  { call: `GET ${messageBatches}?after_id=batch_none`, status: 422 },
  { call: `GET ${messageBatches}`, status: 401, key: null },
  {
    call: `GET ${messageBatch}`,
    status: 200,
    holds: {
      processing_status: "ended",
      request_counts: { processing: 0, succeeded: 2, errored: 1, canceled: 0, expired: 0 },
      results_url: expect.stringMatching(/\/v1\/messages\/batches\/batch_messagesOfAda\/results$/),
    },
  },
  { call: `GET /anthropic${messageBatch}`, status: 200 },
  // A batch of another endpoint is none of messages.
  { call: `GET ${messageBatches}/${batchId}`, status: 404, holds: noBatch },
  { call: `GET ${messageBatch}`, status: 401, key: null },
  {
    call: `GET ${messageBatch}/results`,
    status: 200,
    headers: { "content-type": "application/x-jsonl" },
    given: ({ deps }) => {
      const line = answeredLine("batch_x" as BatchId, 1, "first", { status: 200, body: '{"id":"msg_1"}' });
      const { content } = deps.files;
      deps.files.content = async (...of) => ({ ...(await content(...of)), body: Readable.from([Buffer.from(line)]) });
    },
    holds: { custom_id: "first", result: { type: "succeeded", message: { id: "msg_1" } } },
  },
  { call: `GET ${messageBatches}/batch_none/results`, status: 404, holds: noBatch },
  { call: `GET ${messageBatch}/results`, status: 401, key: null },
  { call: `DELETE ${messageBatch}`, status: 200, holds: { id: messageBatchId, type: "message_batch_deleted" } },
  {
    call: `DELETE ${messageBatch}`,
    status: 409,
    given: ({ deps }) => {
      deps.batches.get = async () => batch({ endpoint: "/v1/messages", status: "in_progress" });
    },
    holds: { error: { details: { error_code: "batch_not_ended" } } },
  },
  { call: `DELETE ${messageBatches}/${batchId}`, status: 404, holds: noBatch },
  { call: `DELETE ${messageBatch}`, status: 401, key: null },
  { call: `POST ${messageBatch}/cancel`, status: 409 },
  { call: `POST ${messageBatches}/${batchId}/cancel`, status: 404, holds: noBatch },
  { call: `POST ${messageBatch}/cancel`, status: 401, key: null },
];

const rows: readonly Row[] = [
  post(200, {}, { holds: { object: "batch", status: "validating", input_file_id: fileId, completion_window: "24h" } }),
  post(
    200,
    { endpoint: "/v1/embeddings", metadata: metadata(16, "k", "v".repeat(512)) },
    { call: "POST /v1/compat/batches" },
  ),
  post(200, { metadata: null, output_expires_after: { anchor: "created_at", seconds: 3_600 } }),
  post(200, {}, { call: "POST /v1/openai/batches" }),
  { call: "POST /v1/batches", status: 400, body: "{" },
  post(401, {}, { key: null }),
  post(403, {}, { key: jwtOfAda }),
  post(
    404,
    { input_file_id: "file_none" },
    { holds: { error: { code: "input_file_not_found", param: "input_file_id" } } },
  ),
  post(422, { endpoint: "/v1/images/generations" }),
  post(422, { completion_window: "1h" }),
  post(422, { metadata: metadata(17) }),
  post(422, { metadata: metadata(1, "k".repeat(64)) }),
  post(422, { metadata: metadata(1, "k", "v".repeat(513)) }),
  post(422, { output_expires_after: { anchor: "created_at", seconds: 3_599 } }),
  post(422, { input_file_id: undefined }, { holds: { detail: [{ loc: ["body", "input_file_id"], type: "missing" }] } }),
  post(503, {}, { given: create(away) }),
  { call: "GET /v1/batches", status: 200, holds: { object: "list", first_id: batchId, has_more: false } },
  { call: "GET /v1/batches?limit=1", status: 200, holds: { last_id: batchId, has_more: true } },
  { call: `GET /v1/compat/batches?after=${batchId}`, status: 200, holds: { first_id: endedBatchId } },
  { call: "GET /v1/batches?after=batch_none", status: 422, holds: { detail: [{ loc: ["query", "after"] }] } },
  { call: "GET /v1/batches?limit=101", status: 422 },
  { call: "GET /v1/batches", status: 401, key: null },
  {
    call: `GET ${path}`,
    status: 200,
    holds: {
      id: batchId,
      object: "batch",
      endpoint: "/v1/chat/completions",
      model: "org/model",
      errors: null,
      status: "in_progress",
      output_file_id: null,
      created_at: 1_786_000_000,
      in_progress_at: 1_786_000_001,
      expires_at: 1_786_086_400,
      completed_at: null,
      request_counts: { total: 3, completed: 1, failed: 1 },
      metadata: null,
      usage: {
        input_tokens: 10,
        input_tokens_details: { cached_tokens: 4 },
        output_tokens: 5,
        output_tokens_details: { reasoning_tokens: 2 },
        total_tokens: 15,
      },
    },
  },
  { call: `GET ${path}`, status: 401, key: null },
  { call: `GET ${path}`, status: 404, key: adminKey, holds: notFound },
  { call: "GET /v1/batches/batch_none", status: 404, holds: notFound },
  { call: `POST ${path}/cancel`, status: 200, holds: { id: batchId, status: "cancelling" } },
  { call: `POST ${path}/cancel`, status: 401, key: null },
  { call: `POST ${path}/cancel`, status: 404, key: adminKey, holds: notFound },
  {
    call: `POST /v1/batches/${endedBatchId}/cancel`,
    status: 409,
    holds: { error: { code: "batch_ended" } },
    headers: { "x-should-retry": "false" },
  },
];

describe("batches", () => {
  it.each([...rows, ...messageRows].map((row) => [`${row.call} -> ${row.status}`, row] as const))("%s", (_, row) =>
    check(row),
  );
});

/** A customer with a session and an uploaded file of requests. */
async function createOwner(): Promise<Values> {
  const customer = await createCustomer();
  const form = new FormData();
  form.append("purpose", "batch");
  form.append("file", new Blob(["{}\n"]), "lines.jsonl");
  const { id: file } = await succeed({ call: "POST /v1/files", key: customer.key, body: form });
  return { ...customer, ...(await signIn(customer)), file };
}

/** Adds running batches of the file, as a control plane that holds them for an hour writes them. */
const addBatches = async ({ uid, file, prefix = "" }: Values, count: number) => {
  await write(
    `insert into batch (batch_id, account_id, key_id, endpoint, input_file_id, output_expires_after_ms, status,
       expires_at, locked_until)
     select 'batch_' || $4 || $2 || n, $1, 'key', '/v1/chat/completions', $2, 86400000, 'in_progress',
       now() + interval '1 day', now() + interval '1 hour' from generate_series(1, $3::int) n`,
    [uid, file, count, prefix],
  );
};

const inSession = { key: null, send: browser } as const;
const lines = { ...request, input_file_id: "{file}" };
const productRows: readonly StatusRow[] = [
  { call: "POST /v1/batches", status: 403, ...inSession, body: lines, holds: { error: { code: "api_key_required" } } },
  { call: "DELETE /v1/files/{file}", status: 409, given: async (values) => addBatches(values, 1) },
  {
    call: "POST /v1/batches",
    status: 429,
    body: lines,
    given: async (values) => addBatches({ ...values, prefix: "more" }, 100),
    headers: { "retry-after": "60" },
  },
];

describe("batches of a customer", () => {
  checkStatuses(createOwner, productRows);
});
