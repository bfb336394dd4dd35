import { beforeAll, describe, expect, it } from "vitest";
import { ada, apiKey, deployment } from "../fakes/ports.ts";
import { answerTo, check, type Row, refuse } from "./status-row.ts";

const id = deployment().id;

const rows: readonly Row[] = [
  { call: "GET /healthz", status: 200, key: null, holds: { status: "ok" } },
  { call: "GET /readyz", status: 200, key: null, holds: { status: "ready" } },
  { call: "GET /v1/metrics/live", status: 200, key: null, holds: { tokens_per_second: null, total_tflops: null } },
  { call: "GET /cli/version?version=0.6.0", status: 200, key: null, holds: { latest: "0.1.0" } },
  {
    call: "GET /cli/version",
    status: 422,
    key: null,
    holds: { detail: [{ loc: ["query", "version"], type: "missing", msg: "Field required" }] },
  },
  { call: "GET /openapi.json", status: 200, key: null, holds: { openapi: "3.1.0", info: { version: "1.0.0" } } },
  { call: "GET /docs", status: 200, key: null },
  {
    call: "POST /v1/api-tokens",
    status: 422,
    body: { name: 1, role: "king" },
    holds: {
      detail: [
        { loc: ["body", "name"], type: "string_type" },
        { loc: ["body", "role"], type: "enum" },
      ],
    },
  },
  { call: "GET /nowhere", status: 404, key: null, holds: { detail: "Not Found" } },

  { call: "GET /v1/me", status: 200, holds: { uid: ada.account, checklist: null, root_uid: ada.account } },
  {
    call: "GET /v1/me?checklist=true",
    status: 200,
    holds: { checklist: { payments_balance: -18, recent: 7.97, limit: null } },
  },
  {
    call: "GET /v1/me?checklist=perhaps",
    status: 422,
    holds: { detail: [{ loc: ["query", "checklist"], type: "bool_parsing" }] },
  },
  { call: "GET /v1/me", status: 401, key: null, headers: { "www-authenticate": "Bearer" } },
  { call: "GET /payment/checklist", status: 200, holds: { suspended: false, email: true, topup_amount: 0 } },
  { call: "GET /payment/checklist", status: 401, key: "stk_other" },
  { call: "GET /v1/me/suspension", status: 200, holds: { suspend_reason: null } },
  { call: "GET /v1/me/suspension", status: 401, key: "stk_other" },
  { call: "GET /payment/usage", status: 200, holds: { initial_month: "2026.02" } },
  {
    call: `GET /payment/usage/${apiKey}?from=current`,
    status: 200,
    holds: {
      months: [{ total_cost: 12.5, items: [{ units: 1_250_000, rate: 0.00001, cost: 12.5, pricing_type: "tokens" }] }],
    },
  },
  { call: `GET /payment/usage/${ada.key}`, status: 200 },
  { call: "GET /payment/usage/id/key-ada", status: 200 },
  { call: "GET /payment/usage/stk_of_somebody_else", status: 404, holds: { code: "api_key_not_found" } },

  {
    call: "GET /v1/models",
    status: 200,
    holds: {
      object: "list",
      data: [
        {
          id: "org/model",
          metadata: { pricing: { input_tokens: 0.02, output_tokens: 0.04, cache_read_tokens: 0.01 } },
        },
      ],
    },
  },
  {
    call: "GET /v1/models",
    status: 401,
    key: null,
    holds: { error: { type: "authentication_error", code: "invalid_api_key" } },
  },
  { call: "GET /v1/openai/models", status: 200 },
  { call: "GET /v1/models/org/model", status: 200, holds: { id: "org/model", object: "model" } },
  { call: "GET /v1/openai/models/org%2Fmodel", status: 200, holds: { id: "org/model" } },
  { call: "GET /v1/models/org/model", status: 401, key: null },
  { call: "GET /v1/models/org/unknown", status: 404, holds: { error: { code: "model_not_found" } } },
  { call: "GET /models/list", status: 200, key: null },
];

describe("every endpoint of the service, accounts and billing, and its statuses", () => {
  it.each(rows.map((row) => [`${row.call} ${row.status}`, row] as const))("%s", (_name, row) => check(row));
});

describe("an error of the management surface", () => {
  let body: { error: string; detail: { error: string }; request_id: string };
  let headers: Record<string, unknown>;
  beforeAll(async () => {
    const answer = await answerTo({ call: "GET /deploy/unknown", status: 404 });
    body = answer.json();
    headers = answer.headers;
  });

  it("has the same text in error and detail.error, and the request id", () => {
    expect(body.detail).toEqual({ error: body.error });
    expect(body.request_id).toBe(headers["x-stoker-request-id"]);
    expect(headers["x-request-id"]).toBe(body.request_id);
  });

  it("contains only the request id for a defect", async () => {
    const bug = refuse("deployments", "get")(new Error("password=hunter2"));
    const answer = await answerTo({ call: `GET /deploy/${id}`, status: 500, given: bug });
    expect(answer.statusCode).toBe(500);
    expect(answer.body).not.toContain("hunter2");
    expect(answer.json().request_id).toMatch(/^[A-Za-z0-9]{24}$/);
  });
});
