import { describe, it } from "vitest";
import { ReportsBusy } from "../../control-plane/billing/report-slots.ts";
import * as deployments from "../../control-plane/deployments/errors.ts";
import { deployment } from "../fakes/ports.ts";
import { check, type Row, refuse } from "./status-row.ts";

const { id } = deployment();
const hf = { model_name: "google/vit-base-patch16-224", task: "image-classification" };
const image = { model_name: "registry.example/ada/whisper", version: "v1" };

/** Both ways of deploying refuse alike. */
const creating = [
  { call: "POST /deploy/hf/", verb: "createHf", body: hf },
  { call: "POST /v1/deploy", verb: "createBy", body: image },
] as const;
const creations: readonly Row[] = creating.flatMap(({ call, verb, body }) => {
  const given = (error: Error) => refuse("deployments", verb)(error);
  return [
    { call, status: 200, body, holds: { deploy_id: id, model_name: body.model_name, type: "legacy" } },
    { call, status: 401, body, key: null },
    { call, status: 400, body: "{", holds: { code: "json_invalid" } },
    { call, status: 402, body, given: given(new deployments.NoFunds()) },
    { call, status: 404, body, given: given(new deployments.BaseModelUnknown("x")) },
    { call, status: 409, body, given: given(new deployments.DeploymentNameTaken("x")) },
    { call, status: 422, body: {}, holds: { detail: [{ loc: ["body", "model_name"], type: "missing" }] } },
    {
      call,
      status: 422,
      body,
      given: given(new deployments.DeploymentRefused("task: no", { param: "task" })),
      holds: { detail: [{ loc: ["body", "task"] }], error: "task: no" },
    },
    { call, status: 423, body, given: given(new deployments.AccountSuspended("balance")) },
    { call, status: 503, body, given: given(new deployments.DeploymentStoreAway(new Error("away"))) },
  ];
});

const readings = ["stats", "stats2"].flatMap((what): readonly Row[] => {
  const call = `GET /deploy/${id}/${what}?from=now-5h` as const;
  const given = (error: Error) => refuse("deployments", "use")(error);
  return [
    { call, status: 401, key: null },
    { call: `GET /deploy/NotMine/${what}`, status: 404 },
    { call, status: 410, given: given(new deployments.DeploymentGone()), holds: { code: "deployment_deleted" } },
    {
      call: `GET /deploy/${id}/${what}?from=yesterday`,
      status: 422,
      holds: { detail: [{ loc: ["query", "from"] }] },
    },
    { call, status: 429, given: given(new ReportsBusy()) },
    { call, status: 503, given: given(new deployments.DeploymentStoreAway(new Error("away"))) },
  ];
});

const rows: readonly Row[] = [
  ...creations,
  {
    call: "POST /deploy/hf/",
    status: 422,
    body: { ...hf, task: "fortune-telling" },
    holds: { detail: [{ loc: ["body", "task"], type: "enum" }] },
  },
  {
    call: "POST /v1/deploy",
    status: 422,
    body: { ...image, provider: "elsewhere" },
    holds: { detail: [{ loc: ["body", "provider"], type: "enum" }] },
  },
  ...readings,
  {
    call: `GET /deploy/${id}/stats?from=1786000000&to=now`,
    status: 200,
    // Cents, seconds and milliseconds.
    holds: {
      requests: 12,
      total_time: 2.5,
      total_tokens: 150,
      total_amount: 1.5,
      avg_time: 208.33,
      avg95_time: 400,
      errors: 1,
    },
  },
  {
    call: `GET /deploy/${id}/stats2`,
    status: 200,
    holds: {
      llm: { requests: 12, avg_ttft_ms: 20, avg95_tpt_ms: 9, total_amount_cents: 1.5 },
      embeddings: null,
      time: null,
    },
  },
  { call: "GET /deploy/stats?from=now-1w", status: 200 },
  { call: "GET /deploy/stats", status: 401, key: null },
  { call: "GET /deploy/stats?from=now-5y", status: 422, holds: { detail: [{ loc: ["query", "from"] }] } },
  { call: "GET /deploy/stats", status: 429, given: refuse("deployments", "requestCounts")(new ReportsBusy()) },
  {
    call: "GET /deploy/stats",
    status: 503,
    given: refuse("deployments", "requestCounts")(new deployments.DeploymentStoreAway(new Error("away"))),
  },
  {
    call: `GET /v1/deployment_logs/query?deploy_id=${id}`,
    status: 200,
    holds: { entries: { "instance-1": [["1682343934.123456789", "loading"]] } },
  },
  { call: `GET /v1/deployment_logs/query?deploy_id=${id}&pod_name=other`, status: 200, holds: { entries: {} } },
  { call: `GET /v1/deployment_logs/query?deploy_id=${id}`, status: 401, key: null },
  { call: `GET /v1/deployment_logs/query?deploy_id=${id}&from=soon`, status: 400 },
  { call: "GET /v1/deployment_logs/query?deploy_id=NotMine", status: 404 },
  {
    call: "GET /v1/deployment_logs/query",
    status: 422,
    holds: { detail: [{ loc: ["query", "deploy_id"], type: "missing" }] },
  },
  {
    call: `GET /v1/deployment_logs/query?deploy_id=${id}`,
    status: 503,
    given: refuse("deployments", "instanceLogs")(new deployments.LogsUnavailable("away")),
  },
];

describe("other ways to deploy, and what deployments did", () => {
  it.each(rows)("$call answers $status", check);
});
