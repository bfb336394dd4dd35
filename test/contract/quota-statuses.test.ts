import { describe, expect } from "vitest";
import {
  checkStatuses,
  createCustomer,
  createEndedCustomer,
  operate,
  operatorKey,
  type StatusRow,
  succeed,
  suspended,
  type Values,
} from "./status-table.ts";

const pool = "/v1/me/gpu_pool/request";
const rate = "/v1/me/rate_limit/request";
const moreGpus = { reason: "launch", requested_max: { "H100-80GB": 16 } };
const moreRequests = { rate_limit: 400, tpm_rate_limit: null, reason: "nightly evals" };
const gpuLimit = { gpu_type: "H100-80GB", requested_limit: 16, reason: "launch" };
const limits = "/v1/admin/accounts/{uid}/limits";

type Call = Pick<StatusRow, "call" | "body">;

async function newAccount(): Promise<Values> {
  const { uid, key } = await createCustomer();
  return { uid, key };
}

/** An account with both requests open. */
async function requested(): Promise<Values> {
  const values = await newAccount();
  const gpus = await succeed({ call: `POST ${pool}`, body: moreGpus }, values);
  await succeed({ call: `POST ${rate}`, body: moreRequests }, values);
  const { requests } = await operate("GET /v1/admin/rate-limit-requests?limit=200");
  const rates = requests.find((one: { uid: string }) => one.uid === values["uid"]);
  return { ...values, gpus: gpus.id, rates: rates.id };
}

const own: readonly Call[] = [
  { call: "GET /v1/me/rate_limit" },
  { call: `POST ${rate}`, body: moreRequests },
  { call: "GET /v1/me/gpu_pool" },
  { call: `POST ${pool}`, body: moreGpus },
  { call: "GET /v1/me/gpu_limit" },
  { call: "POST /v1/me/gpu_limit/request", body: gpuLimit },
  { call: "GET /v1/me/limit_requests" },
];
const withdraw: Call = { call: `DELETE ${pool}/{gpus}` };
const withdrawRates: Call = { call: `DELETE ${rate}/{rates}` };
const decisions: readonly Call[] = ["gpu-pool-requests/{gpus}", "rate-limit-requests/{rates}"].flatMap((request) =>
  (["approve", "reject"] as const).map(
    (verb): Call => ({ call: `POST /v1/admin/${request}/${verb}`, body: { note: "fine" } }),
  ),
);
const ofLimits: readonly Call[] = [
  { call: `GET ${limits}` },
  { call: `PUT ${limits}`, body: { rate_limit: 400, gpu_max: { "L4-24GB": 2, other: null } } },
];
const operators: readonly Call[] = [
  { call: "GET /v1/admin/gpu-pool-requests" },
  { call: "GET /v1/admin/rate-limit-requests" },
  ...decisions,
  ...ofLimits,
];

const rows: readonly StatusRow[] = [
  ...own.map((row): StatusRow => ({ ...row, status: 200, given: newAccount })),
  { ...withdraw, status: 200, given: requested },
  { ...withdrawRates, status: 200, given: requested },
  ...operators.map((row): StatusRow => ({ ...row, status: 200, key: operatorKey, given: requested })),
  ...[...own, withdraw, withdrawRates, ...operators].map(
    (row): StatusRow => ({ ...row, key: null, status: 401, headers: { "www-authenticate": "Bearer" } }),
  ),
  ...own.map(
    (row): StatusRow => ({ ...row, status: 404, given: createEndedCustomer, holds: { code: "account_not_found" } }),
  ),
  ...ofLimits.map(
    (row): StatusRow => ({
      ...row,
      ...{ key: operatorKey, status: 404, holds: { code: "account_not_found" } },
      given: async () => ({ uid: "u:9999999999999" }),
    }),
  ),
  ...operators.map((row): StatusRow => ({ ...row, status: 403, holds: { code: "admin_only" } })),

  { call: "GET /v1/me/rate_limit", status: 200, holds: { rate_limit: 200, tpm_rate_limit: 5_000_000 } },
  {
    call: `POST ${rate}`,
    status: 400,
    body: { ...moreRequests, rate_limit: 200 },
    given: newAccount,
    holds: { code: "invalid_request" },
  },
  {
    call: `POST ${rate}`,
    status: 403,
    body: moreRequests,
    given: () => suspended(newAccount()),
    holds: { code: "account_suspended" },
  },
  {
    call: `POST ${rate}`,
    status: 422,
    body: { rate_limit: 400 },
    holds: { detail: [{ loc: ["body", "reason"], type: "missing" }] },
  },
  {
    call: `POST ${rate}`,
    status: 422,
    body: { ...moreRequests, reason: "x".repeat(2049) },
    holds: { detail: [{ loc: ["body", "reason"] }] },
  },
  {
    call: "GET /v1/me/limit_requests",
    status: 200,
    given: async () => {
      const values = await requested();
      for (const [request, verb, note] of [
        ["rate-limit-requests/{rates}", "reject", "ask again in May"],
        ["gpu-pool-requests/{gpus}", "approve", "enjoy"],
      ])
        await succeed({ call: `POST /v1/admin/${request}/${verb}`, key: operatorKey, body: { note } }, values);
      return values;
    },
    holds: {
      requests: [
        { kind: "rate", status: "rejected", resolution_reason: "ask again in May", rate_limit: 400, gpu_max: null },
        { kind: "gpu", status: "approved", resolution_reason: "enjoy", rate_limit: null },
      ],
    },
  },
  { call: "GET /v1/me/limit_requests?limit=0", status: 422 },
  { call: `DELETE ${rate}/unknown`, status: 404, holds: { code: "request_not_found" } },
  {
    ...withdrawRates,
    status: 409,
    given: async () => {
      const values = await requested();
      await succeed(withdrawRates, values);
      return values;
    },
    holds: { code: "request_decided" },
  },

  { call: `POST ${rate}`, status: 429, body: moreRequests, headers: { "retry-after": "3600" } },

  { call: "GET /v1/gpu_pool/gpu_types", status: 401, key: null },
  {
    call: "GET /v1/gpu_pool/gpu_types",
    status: 200,
    holds: {
      gpu_types: [
        "B300-270GB",
        "B200-180GB",
        "H200-141GB",
        "H100-80GB",
        "A100-80GB",
        "L40S-48GB",
        "L4-24GB",
        "RTXPRO6000-96GB",
      ],
    },
  },
  {
    call: "GET /v1/me/gpu_pool",
    status: 200,
    holds: {
      max_limits: { "H100-80GB": 8, other: 8 },
      min_limits: { "H100-80GB": 0 },
      pending_request: { id: "{gpus}", requested_max: { "H100-80GB": 16 }, reason: "launch" },
    },
  },
  {
    call: "GET /v1/me/gpu_pool",
    status: 200,
    given: async () => {
      const values = await requested();
      const reject = { call: "POST /v1/admin/gpu-pool-requests/{gpus}/reject", body: { note: "no room" } } as const;
      await succeed({ ...reject, key: operatorKey }, values);
      return values;
    },
    holds: { pending_request: null, last_rejection: { id: "{gpus}", resolution_reason: "no room" } },
  },
  {
    call: `POST ${pool}`,
    status: 200,
    given: newAccount,
    body: moreGpus,
    holds: { requested_max: { "H100-80GB": 16 } },
  },
  {
    call: `POST ${pool}`,
    status: 400,
    given: newAccount,
    body: { reason: "launch", requested_max: { "H100-80GB": 8 } },
    holds: { code: "invalid_request" },
  },
  {
    call: `POST ${pool}`,
    status: 409,
    body: { ...moreGpus, expected_request_id: null },
    headers: { "x-should-retry": "false" },
    holds: { code: "request_conflict" },
  },
  { call: `POST ${pool}`, status: 422, body: { requested_max: {} }, holds: { detail: [{ loc: ["body", "reason"] }] } },
  {
    call: `POST ${pool}`,
    status: 422,
    body: { reason: "launch", requested_max: { "H100-80GB": "16" } },
    holds: { detail: [{ loc: ["body", "requested_max", "H100-80GB"], type: "int_type" }] },
  },
  { call: `DELETE ${pool}/unknown`, status: 404, holds: { code: "request_not_found" } },
  {
    ...withdraw,
    status: 409,
    given: async () => {
      const values = await requested();
      await succeed(withdraw, values);
      return values;
    },
    holds: { code: "request_decided" },
  },
  {
    call: "GET /v1/me/gpu_limit",
    status: 200,
    holds: { limits: { "H100-80GB": 8 }, pending_requests: { "H100-80GB": 16 } },
  },
  { call: "POST /v1/me/gpu_limit/request", status: 403, body: gpuLimit, given: () => suspended(newAccount()) },
  {
    call: "POST /v1/me/gpu_limit/request",
    status: 422,
    body: { ...gpuLimit, gpu_type: "H101" },
    holds: { detail: [{ loc: ["body", "gpu_type"], type: "enum" }] },
  },
  {
    call: "POST /v1/me/gpu_limit/request",
    status: 422,
    given: newAccount,
    body: { ...gpuLimit, requested_limit: 8 },
    holds: { detail: [{ loc: ["body", "requested_limit"] }] },
  },

  {
    call: "GET /v1/admin/gpu-pool-requests",
    status: 200,
    key: operatorKey,
    holds: { requests: expect.arrayContaining([expect.objectContaining({ status: "open", revision: 1 })]) },
  },
  {
    call: "GET /v1/admin/rate-limit-requests",
    status: 200,
    key: operatorKey,
    holds: { requests: expect.arrayContaining([expect.objectContaining({ rate_limit: 400, tpm_rate_limit: null })]) },
  },
  { call: "GET /v1/admin/rate-limit-requests?limit=0", status: 422, key: operatorKey },
  ...decisions.flatMap((row): StatusRow[] => [
    { ...row, key: operatorKey, status: 404, given: async () => ({ gpus: "unknown", rates: "unknown" }) },
    {
      ...row,
      key: operatorKey,
      status: 409,
      given: async () => {
        const values = await requested();
        await succeed({ ...row, key: operatorKey }, values);
        return values;
      },
      holds: { code: "request_decided" },
    },
    {
      ...row,
      key: operatorKey,
      status: 409,
      given: requested,
      body: { note: "fine", revision: 7 },
      holds: { code: "request_conflict" },
    },
    {
      ...row,
      body: {},
      key: operatorKey,
      status: 422,
      holds: { detail: [{ loc: ["body", "note"], type: "missing" }] },
    },
  ]),
  { call: `PUT ${limits}`, status: 422, key: operatorKey, body: { gpu_max: { H101: 1 } } },
  { call: `PUT ${limits}`, status: 422, key: operatorKey, body: { rate_limit: -1 } },
  {
    call: `PUT ${limits}`,
    status: 422,
    key: operatorKey,
    body: { gpu_min: { other: 9 } },
    holds: { code: "invalid_limits" },
  },
  {
    call: "POST /deploy/llm",
    status: 422,
    body: { model_name: "ada/llm", gpu: "H100-80GB", num_gpus: 8, settings: { max_instances: 2 } },
    holds: { code: "gpu_limit_reached", detail: [{ loc: ["body", "gpu"] }] },
  },
];

describe("rate limits and the GPU pool", () => {
  checkStatuses(requested, rows);
});
