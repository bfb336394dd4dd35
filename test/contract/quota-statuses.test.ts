import { describe, it } from "vitest";
import * as quotas from "../../control-plane/quotas/errors.ts";
import { ada, adminKey } from "../fakes/ports.ts";
import { check, type Row, refuse } from "./status-row.ts";

const databaseAway = Object.assign(new Error("the database cannot be reached"), { name: "DatabaseAway" });
const pool = "/v1/me/gpu_pool/request";
const rate = "/v1/me/rate_limit/request";
const gpuWish = { reason: "launch", requested_max: { "H100-80GB": 16 } };
const rateWish = { rate_limit: 400, tpm_rate_limit: null, reason: "nightly evals" };
const limits = `/v1/admin/accounts/${ada.account}/limits`;

/** Every endpoint with what it takes and the verb it calls. */
const own = [
  { call: "GET /v1/me/rate_limit", verb: "rateLimits" },
  { call: `POST ${rate}`, verb: "requestRates", body: rateWish },
  { call: "GET /v1/me/gpu_pool", verb: "gpuPool" },
  { call: `POST ${pool}`, verb: "requestGpus", body: gpuWish },
  { call: `DELETE ${pool}/gpr_01`, verb: "withdrawGpus" },
  { call: "GET /v1/me/gpu_limit", verb: "gpuPool" },
  {
    call: "POST /v1/me/gpu_limit/request",
    verb: "requestGpuLimit",
    body: { gpu_type: "H100-80GB", requested_limit: 16, reason: "launch" },
  },
] as const;
const decisions = ["gpu-pool-requests/gpr_01", "rate-limit-requests/rlr_01"].flatMap((request) =>
  (["approve", "reject"] as const).map(
    (verb) => ({ call: `POST /v1/admin/${request}/${verb}`, verb: "resolve", body: { note: "fine" } }) as const,
  ),
);
const operators = [
  { call: "GET /v1/admin/gpu-pool-requests", verb: "list" },
  { call: "GET /v1/admin/rate-limit-requests", verb: "list" },
  ...decisions,
  { call: `GET ${limits}`, verb: "limits" },
  { call: `PUT ${limits}`, verb: "setLimits", body: { rate_limit: 400, gpu_max: { "L4-24GB": 2, other: null } } },
] as const;

const ofEvery = [
  ...own.map((row) => ({ ...row, key: undefined })),
  ...operators.map((row) => ({ ...row, key: adminKey })),
];
const common = ofEvery.flatMap(({ verb, key, ...row }): Row[] => {
  const as = key === undefined ? row : { ...row, key };
  return [
    { ...as, status: 200 },
    { ...row, key: null, status: 401, headers: { "www-authenticate": "Bearer" } },
    { ...as, status: 503, given: refuse("quotas", verb)(databaseAway), holds: { code: "store_away" } },
  ];
});
const gone = [...own, operators.at(-1), operators.at(-2)].flatMap((row): Row[] => {
  if (!row || row.verb === "withdrawGpus") return [];
  const { verb, ...call } = row;
  const given = refuse("quotas", verb)(new quotas.QuotaAccountGone());
  return [{ ...call, key: adminKey, status: 404, given, holds: { code: "account_not_found" } }];
});

const rows: readonly Row[] = [
  ...common,
  ...gone,
  ...operators.map(({ verb: _, ...row }): Row => ({ ...row, status: 403, holds: { code: "admin_only" } })),

  { call: "GET /v1/me/rate_limit", status: 200, holds: { rate_limit: 200, tpm_rate_limit: 5_000_000 } },
  {
    call: `POST ${rate}`,
    status: 400,
    body: rateWish,
    given: refuse("quotas", "requestRates")(new quotas.RateRequestRefused(400, 5_000_000)),
    holds: { code: "invalid_request" },
  },
  {
    call: `POST ${rate}`,
    status: 403,
    body: rateWish,
    given: refuse("quotas", "requestRates")(new quotas.RequestForbidden("balance")),
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
    body: { ...rateWish, reason: "x".repeat(2049) },
    holds: { detail: [{ loc: ["body", "reason"] }] },
  },
  {
    call: `POST ${rate}`,
    status: 429,
    body: rateWish,
    given: refuse("quotas", "requestRates")(new quotas.RateRequestOpen()),
    headers: { "retry-after": "3600" },
  },

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
      pending_request: {
        id: "gpr_01",
        created_at: 1_786_000_000,
        requested_max: { "H100-80GB": 16 },
        reason: "launch",
      },
      last_rejection: { id: "gpr_00", resolved_at: 1_785_000_000, resolution_reason: "no room" },
    },
  },
  { call: `POST ${pool}`, status: 200, body: gpuWish, holds: { id: "gpr_01", requested_max: { "H100-80GB": 16 } } },
  {
    call: `POST ${pool}`,
    status: 400,
    body: gpuWish,
    given: refuse("quotas", "requestGpus")(new quotas.GpuRequestRefused("nothing")),
    holds: { code: "invalid_request" },
  },
  {
    call: `POST ${pool}`,
    status: 409,
    body: gpuWish,
    given: refuse("quotas", "requestGpus")(new quotas.GpuRequestConflict("gpr_01")),
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
  {
    call: `DELETE ${pool}/gpr_02`,
    status: 404,
    given: refuse("quotas", "withdrawGpus")(new quotas.LimitRequestNotFound()),
    holds: { code: "request_not_found" },
  },
  {
    call: `DELETE ${pool}/gpr_01`,
    status: 409,
    given: refuse("quotas", "withdrawGpus")(new quotas.LimitRequestDecided()),
    holds: { code: "request_decided" },
  },
  {
    call: "GET /v1/me/gpu_limit",
    status: 200,
    holds: { limits: { "H100-80GB": 8 }, pending_requests: { "H100-80GB": 16 } },
  },
  {
    call: "POST /v1/me/gpu_limit/request",
    status: 403,
    body: { gpu_type: "other", requested_limit: 16, reason: "launch" },
    given: refuse("quotas", "requestGpuLimit")(new quotas.RequestForbidden("admin")),
  },
  {
    call: "POST /v1/me/gpu_limit/request",
    status: 422,
    body: { gpu_type: "H101", requested_limit: 16, reason: "launch" },
    holds: { detail: [{ loc: ["body", "gpu_type"], type: "enum" }] },
  },
  {
    call: "POST /v1/me/gpu_limit/request",
    status: 422,
    body: { gpu_type: "other", requested_limit: 8, reason: "launch" },
    given: refuse("quotas", "requestGpuLimit")(new quotas.GpuLimitRefused(new quotas.GpuRequestRefused("the same"))),
    holds: { detail: [{ loc: ["body", "requested_limit"] }] },
  },

  {
    call: "GET /v1/admin/gpu-pool-requests",
    status: 200,
    key: adminKey,
    holds: {
      requests: [{ id: "gpr_01", uid: ada.account, status: "open", revision: 1, requested_min: { "H100-80GB": 1 } }],
    },
  },
  {
    call: "GET /v1/admin/rate-limit-requests",
    status: 200,
    key: adminKey,
    holds: { requests: [{ id: "rlr_01", rate_limit: 400, tpm_rate_limit: null }] },
  },
  { call: "GET /v1/admin/rate-limit-requests?limit=0", status: 422, key: adminKey },
  ...decisions.flatMap(({ verb, ...row }): Row[] => [
    { ...row, key: adminKey, status: 404, given: refuse("quotas", verb)(new quotas.LimitRequestNotFound()) },
    { ...row, key: adminKey, status: 409, given: refuse("quotas", verb)(new quotas.LimitRequestDecided()) },
    {
      ...row,
      key: adminKey,
      status: 409,
      given: refuse("quotas", verb)(new quotas.LimitRequestMoved()),
      holds: { code: "request_conflict" },
    },
    { ...row, body: {}, key: adminKey, status: 422, holds: { detail: [{ loc: ["body", "note"], type: "missing" }] } },
  ]),
  { call: `PUT ${limits}`, status: 422, key: adminKey, body: { gpu_max: { H101: 1 } } },
  { call: `PUT ${limits}`, status: 422, key: adminKey, body: { rate_limit: -1 } },
  {
    call: `PUT ${limits}`,
    status: 422,
    key: adminKey,
    body: { gpu_min: { other: 9 } },
    given: refuse(
      "quotas",
      "setLimits",
    )(new quotas.LimitsRefused("other: the minimum of 9 is above the maximum of 8.")),
    holds: { code: "invalid_limits" },
  },
  {
    call: "POST /deploy/llm",
    status: 422,
    body: { model_name: "ada/llm", gpu: "H100-80GB" },
    given: refuse("deployments", "createLlm")(new quotas.GpuLimitReached("H100-80GB", 2, 7, 8)),
    holds: { code: "gpu_limit_reached", detail: [{ loc: ["body", "gpu"] }] },
  },
];

describe("every endpoint of rate limits and the GPU pool, and its statuses", () => {
  it.each(rows.map((row, i) => [`${row.call} ${row.status} (${i})`, row] as const))("%s", (_name, row) => check(row));
});
