import { describe, expect, it } from "vitest";
import { ada, adminKey, deployment } from "../fakes/ports.ts";
import { dayOfUse } from "../fakes/usage-log-ports.ts";
import { answerTo, check, type Row } from "./status-row.ts";

const series = `GET /v1/deployments/${deployment().id}/series` as const;
const figures = { requests: 1, input_tokens: 6, output_tokens: 3, cost: 0.000007 };

const days: readonly Row[] = [
  {
    call: `GET /v1/usage/days?from=${dayOfUse}`,
    status: 200,
    holds: {
      days: [
        {
          day: dayOfUse,
          total_cost: 0.000007,
          items: [{ id: "org/model", name: "org/model", spending_limit: null, ...figures }],
        },
      ],
      is_truncated: false,
    },
  },
  {
    call: `GET /v1/usage/days?by=key&from=${dayOfUse}&to=2026-02-04`,
    status: 200,
    holds: { days: [{ items: [{ id: ada.key, name: "auto", ...figures }] }, { day: "2026-02-04", items: [] }] },
  },
  {
    call: `GET /v1/usage/days?by=token&from=${dayOfUse}&to=${dayOfUse}`,
    status: 200,
    holds: { days: [{ items: [{ id: "of-ada", name: "auto", spending_limit: 2.5, ...figures }] }] },
  },
  {
    call: `GET /v1/usage/days?by=model_and_key&from=${dayOfUse}&to=${dayOfUse}`,
    status: 200,
    holds: {
      days: [{ items: [{ id: "org/model", name: "org/model", key_id: ada.key, key_name: "auto", ...figures }] }],
    },
  },
  { call: "GET /v1/usage/days?by=weather", status: 422, holds: { detail: [{ loc: ["query", "by"] }] } },
  { call: "GET /v1/usage/days?from=2026-02-30", status: 422, holds: { detail: [{ loc: ["query", "from"] }] } },
  { call: "GET /v1/usage/days?from=2026-02-04", status: 422, holds: { detail: [{ loc: ["query", "from"] }] } },
  { call: "GET /v1/usage/days?from=2025-01-01", status: 422, holds: { detail: [{ loc: ["query", "from"] }] } },
  { call: "GET /v1/usage/days", status: 401, key: null },
];

const ann = { period: "2026-02", user: "ann, of sales", ...figures };
const nextPage = Buffer.from("2026-02 ann, of sales").toString("base64url");
const users: readonly Row[] = [
  { call: "GET /v1/usage/users", status: 200, holds: { users: [ann, { ...ann, user: null }], next: null } },
  {
    call: "GET /v1/usage/users?by=day&model=org/model&key=k",
    status: 200,
    holds: { users: [{ period: dayOfUse }, {}] },
  },
  { call: "GET /v1/usage/users?limit=1", status: 200, holds: { users: [ann], next: nextPage } },
  { call: `GET /v1/usage/users?after=${nextPage}`, status: 200, holds: { users: [{ user: null }], next: null } },
  { call: "GET /v1/usage/users?order=cost&user=ann", status: 200, holds: { next: null } },
  {
    call: `GET /v1/usage/users?order=cost&after=${nextPage}`,
    status: 422,
    holds: { detail: [{ loc: ["query", "after"] }] },
  },
  { call: "GET /v1/usage/users?order=size", status: 422, holds: { detail: [{ loc: ["query", "order"] }] } },
  { call: "GET /v1/usage/users?after=%20", status: 422, holds: { detail: [{ loc: ["query", "after"] }] } },
  { call: "GET /v1/usage/users?by=year", status: 422, holds: { detail: [{ loc: ["query", "by"] }] } },
  { call: "GET /v1/usage/users?from=2024-01-01", status: 422, holds: { detail: [{ loc: ["query", "from"] }] } },
  { call: "GET /v1/usage/users?limit=10001", status: 422, holds: { detail: [{ loc: ["query", "limit"] }] } },
  { call: "GET /v1/usage/users", status: 401, key: null },
  { call: "DELETE /v1/usage/users?user=ann%2C%20of%20sales", status: 200 },
  { call: "DELETE /v1/usage/users?user=nobody", status: 404, holds: { code: "end_user_not_found" } },
  { call: "DELETE /v1/usage/users", status: 422, holds: { detail: [{ loc: ["query", "user"] }] } },
  { call: "DELETE /v1/usage/users?user=ann", status: 401, key: null },
];

const record = {
  request_id: "RequestOfAda",
  counts: true,
  end_reason: "stop",
  queue_ms: 5,
  http_status: 200,
  user: "ann",
  cost: 0.000007,
};
const requests: readonly Row[] = [
  { call: "GET /v1/requests", status: 200, holds: { requests: [record], has_more: false } },
  { call: "GET /v1/requests?failed=true&model=org/model&after=RequestOfAda&limit=1", status: 200 },
  { call: "GET /v1/requests?key=k&user=ann&status=4xx&end_reason=refused", status: 200 },
  { call: "GET /v1/requests?status=404", status: 200 },
  { call: "GET /v1/requests?status=x99", status: 422, holds: { detail: [{ loc: ["query", "status"] }] } },
  { call: "GET /v1/requests?end_reason=unknown", status: 422, holds: { detail: [{ loc: ["query", "end_reason"] }] } },
  { call: "GET /v1/requests?limit=201", status: 422, holds: { detail: [{ loc: ["query", "limit"] }] } },
  { call: "GET /v1/requests?from=yesterday", status: 422, holds: { detail: [{ loc: ["query", "from"] }] } },
  { call: "GET /v1/requests?after=unknown", status: 404, holds: { code: "request_not_found" } },
  { call: "GET /v1/requests", status: 401, key: null },
  { call: "GET /v1/requests/RequestOfAda", status: 200, holds: { attempts: [record] } },
  { call: "GET /v1/requests/unknown", status: 404, holds: { code: "request_not_found" } },
  {
    call: "GET /v1/requests/RejectedOfAda",
    status: 200,
    holds: { attempts: [], rejection: { code: "model_not_found", status: 404 } },
  },
  { call: "GET /v1/requests/%00", status: 422 },
  { call: "GET /v1/requests/RequestOfAda", status: 401, key: null },
];

const rejection = {
  request_id: "RejectedOfAda",
  status: 404,
  code: "model_not_found",
  model: "org/unknown",
  token_id: ada.key,
  path: "/v1/chat/completions",
  client_request_id: "mine",
  others: 3,
};
const rejections: readonly Row[] = [
  { call: "GET /v1/rejected-requests", status: 200, holds: { requests: [rejection], has_more: false } },
  {
    call: "GET /v1/rejected-requests?model=m&key=k&code=rate_limit_exceeded&after=RejectedOfAda&limit=1&from=now-1h&to=now",
    status: 200,
  },
  { call: "GET /v1/rejected-requests?after=unknown", status: 404, holds: { code: "request_not_found" } },
  { call: "GET /v1/rejected-requests?code=No", status: 422, holds: { detail: [{ loc: ["query", "code"] }] } },
  { call: "GET /v1/rejected-requests?limit=201", status: 422, holds: { detail: [{ loc: ["query", "limit"] }] } },
  { call: "GET /v1/rejected-requests?from=yesterday", status: 422, holds: { detail: [{ loc: ["query", "from"] }] } },
  { call: "GET /v1/rejected-requests", status: 401, key: null },
];

const whole = { ...record, account: ada.account, instance_id: "instance-1" };
const operators: readonly Row[] = [
  { call: `GET /v1/admin/requests?account=${ada.account}`, status: 200, holds: { requests: [whole] } },
  { call: "GET /v1/admin/requests?account=u:1", status: 200, holds: { requests: [] } },
  { call: "GET /v1/admin/requests", status: 422, holds: { detail: [{ loc: ["query", "account"] }] } },
  { call: "GET /v1/admin/requests?account=u:1&after=unknown", status: 404 },
  { call: "GET /v1/admin/requests?account=u:1", status: 401, key: null },
  { call: "GET /v1/admin/failed-requests", status: 200, holds: { requests: [{ end_reason: "engine_error" }] } },
  { call: "GET /v1/admin/failed-requests?limit=0", status: 422 },
  { call: "GET /v1/admin/failed-requests", status: 401, key: null },
  {
    call: "GET /v1/admin/rejected-requests",
    status: 200,
    holds: { requests: [{ ...rejection, account: ada.account }] },
  },
  { call: `GET /v1/admin/rejected-requests?account=${ada.account}&limit=1`, status: 200, holds: { has_more: false } },
  { call: "GET /v1/admin/rejected-requests?account=u:1", status: 200, holds: { requests: [] } },
  { call: "GET /v1/admin/rejected-requests?after=unknown", status: 404, holds: { code: "request_not_found" } },
  { call: "GET /v1/admin/rejected-requests?limit=201", status: 422, holds: { detail: [{ loc: ["query", "limit"] }] } },
  { call: "GET /v1/admin/rejected-requests", status: 401, key: null },
  {
    call: "GET /v1/admin/requests/RejectedOfAda",
    status: 200,
    holds: { attempts: [], rejection: { code: "model_not_found", account: ada.account } },
  },
  { call: "GET /v1/admin/requests/RequestOfAda", status: 200, holds: { attempts: [whole] } },
  { call: "GET /v1/admin/requests/unknown", status: 404, holds: { code: "request_not_found" } },
  { call: "GET /v1/admin/requests/RequestOfAda", status: 401, key: null },
].map((row) => ({ key: adminKey, ...row }) as Row);

const ofDeployments: readonly Row[] = [
  {
    call: `${series}?from=now-24h&steps=24`,
    status: 200,
    holds: {
      step_seconds: 3600,
      steps: [{ requests: 2, errors: 1, first_byte_ms: { p50: 20, p95: 30 }, queue_ms_p95: null }],
      end_reasons: { stop: 1 },
    },
  },
  { call: `${series}?steps=0`, status: 422, holds: { detail: [{ loc: ["query", "steps"] }] } },
  { call: `${series}?from=now`, status: 422, holds: { detail: [{ loc: ["query", "from"] }] } },
  { call: "GET /v1/deployments/unknown/series", status: 404 },
  { call: series, status: 401, key: null },
];

describe("every endpoint of daily usage and the request log, and its statuses", () => {
  it.each(
    [...days, ...users, ...requests, ...rejections, ...operators, ...ofDeployments].map(
      (row) => [`${row.call} ${row.status}`, row] as const,
    ),
  )("%s", (_name, row) => check(row));
});

it.each([
  ["/v1/usage/users?format=csv&limit=1", "*/*"],
  ["/v1/usage/users?limit=1", "text/csv"],
])("exports end users as CSV: %s accepting %s", async (path, accept) => {
  const answer = await answerTo({ call: `GET ${path}`, status: 200, send: { accept } });
  expect(answer.headers).toMatchObject({ "content-type": "text/csv; charset=utf-8" });
  expect(answer.body).toBe(
    'period,user,requests,input_tokens,output_tokens,cost\r\n2026-02,"ann, of sales",1,6,3,0.000007\r\n',
  );
  expect(answer.headers["link"]).toMatch(/^<\/v1\/usage\/users\?.*after=\w+>; rel="next"$/);
});

it("what an account is told of its requests names no host and no other account", async () => {
  const { attempts } = (await answerTo({ call: "GET /v1/requests/RequestOfAda", status: 200 })).json();
  expect(attempts).toHaveLength(1);
  for (const field of ["account", "instance_id", "deploy_id"]) expect(attempts[0]).not.toHaveProperty(field);
});

it.each(["/v1/admin/requests?account=u:1", "/v1/admin/requests/RequestOfAda"])(
  "GET %s is the operator's alone",
  async (path) => {
    expect((await answerTo({ call: `GET ${path}`, status: 403 })).statusCode).toBe(403);
  },
);
