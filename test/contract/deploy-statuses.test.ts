import { describe, it } from "vitest";
import * as accounts from "../../control-plane/accounts/errors.ts";
import { OfferedDeploymentUnknown, OfferRefused } from "../../control-plane/catalog/offer-model.ts";
import * as deployments from "../../control-plane/deployments/errors.ts";
import { NodeNotFound, NothingCordoned } from "../../control-plane/fleet/errors.ts";
import { adminKey, deployment } from "../fakes/ports.ts";
import { check, type Row, refuse } from "./status-row.ts";

const id = deployment().id;
const llm = { model_name: "ada/my-llm", gpu: "H100-80GB" };
const offer = { deploy_id: id, pricing: { input: 0.02, cached_input: 0.01, output: 0.04 } };
const external = { name: "bench", url: "http://127.0.0.1:9" };
const account = { email: "b@example.com", display_name: "bob", credit_usd: 5 };

const createLlm = refuse("deployments", "createLlm");

const rows: readonly Row[] = [
  {
    call: "POST /deploy/llm",
    status: 200,
    body: llm,
    holds: { status: "initializing", instances: { running: 0, pending: 1 } },
  },
  { call: "POST /deploy/llm", status: 401, body: llm, key: null },
  { call: "POST /deploy/llm", status: 400, body: "{", holds: { code: "json_invalid" } },
  {
    call: "POST /deploy/llm",
    status: 402,
    body: llm,
    given: createLlm(new deployments.NoFunds()),
    headers: { "x-should-retry": "false" },
  },
  { call: "POST /deploy/llm", status: 404, body: llm, given: createLlm(new deployments.BaseModelUnknown("x")) },
  {
    call: "POST /deploy/llm",
    status: 409,
    body: llm,
    given: createLlm(new deployments.DeploymentNameTaken("x")),
    headers: { "x-should-retry": "false" },
  },
  {
    call: "POST /deploy/llm",
    status: 422,
    body: { model_name: "ada/x", gpu: "H100" },
    holds: { detail: [{ loc: ["body", "gpu"], type: "enum" }] },
  },
  {
    call: "POST /deploy/llm",
    status: 422,
    body: { ...llm, num_gpus: 9 },
    holds: { detail: [{ loc: ["body", "num_gpus"], type: "less_than_equal" }] },
  },
  {
    call: "POST /deploy/llm",
    status: 422,
    body: { ...llm, hf: {} },
    holds: { detail: [{ loc: ["body", "hf", "repo"], type: "missing" }] },
  },
  {
    call: "POST /deploy/llm",
    status: 422,
    body: llm,
    given: createLlm(new deployments.DeploymentRefused("hf.repo: no", { param: "hf.repo" })),
    holds: { detail: [{ loc: ["body", "hf", "repo"] }], error: "hf.repo: no" },
  },
  {
    call: "POST /deploy/llm",
    status: 423,
    body: llm,
    given: createLlm(new deployments.AccountSuspended("balance")),
    holds: { code: "account_suspended" },
  },
  {
    call: `PUT /deploy/${id}`,
    status: 423,
    body: { settings: { max_instances: 3 } },
    given: refuse("deployments", "update")(new deployments.AccountSuspended("bad-cc")),
    holds: { code: "account_suspended" },
  },
  {
    call: `POST /deploy/${id}/start`,
    status: 423,
    given: refuse("deployments", "start")(new deployments.AccountSuspended("admin")),
    holds: { code: "account_suspended" },
  },
  {
    call: "POST /deploy/llm",
    status: 503,
    body: llm,
    given: createLlm(new deployments.DeploymentStoreAway(new Error("x"))),
    headers: { "retry-after": "2" },
  },
  {
    call: "GET /deploy/llm/gpu_availability?source=&base_model=",
    status: 200,
    holds: {
      gpus: [
        { gpu_config: "1xH100-80GB", usd_per_hour: 1.79, available: true, recommended: true },
        { gpu_config: "8xB200-180GB", usd_per_hour: 22.32, available: false, recommended: false },
      ],
    },
  },
  { call: "GET /deploy/llm/gpu_availability", status: 401, key: null },
  {
    call: "GET /deploy/llm/gpu_availability?base_model=x",
    status: 404,
    given: refuse("placement", "gpus")(new deployments.BaseModelUnknown("x")),
  },
  { call: `GET /deploy/llm/gpu_availability?source=${"x".repeat(300)}`, status: 422 },
  {
    call: "GET /deploy/llm/gpu_availability",
    status: 503,
    given: refuse("placement", "gpus")(new deployments.DeploymentStoreAway(undefined)),
  },
  {
    call: `GET /deploy/${id}/placement`,
    status: 200,
    holds: { fits: false, refused: [{ host: "host-1", why: "it has no H100-80GB GPU" }] },
  },
  { call: `GET /deploy/${id}/placement`, status: 404, key: adminKey },
  {
    call: `GET /deploy/${id}/placement`,
    status: 503,
    given: refuse("placement", "dryRun")(new deployments.DeploymentStoreAway(undefined)),
  },
  {
    call: "POST /deploy/llm/placement",
    status: 200,
    body: { ...llm, settings: { min_instances: 2, max_instances: 2 } },
    holds: {
      fits: false,
      engine: "vllm",
      memory_bytes: 1024 ** 3,
      usd_per_hour: 3.58,
      refused: [{ host: "host-1", why: "it has no H100-80GB GPU" }],
    },
  },
  { call: "POST /deploy/llm/placement", status: 401, body: llm, key: null },
  { call: "POST /deploy/llm/placement", status: 400, body: "{", holds: { code: "json_invalid" } },
  ...(
    [
      [402, new deployments.NoFunds()],
      [404, new deployments.BaseModelUnknown("x")],
      [409, new deployments.DeploymentNameTaken("ada/x")],
      [422, new deployments.DeploymentRefused("hf.repo: no", { param: "hf.repo" })],
      [423, new deployments.AccountSuspended("balance")],
      [503, new deployments.DeploymentStoreAway(undefined)],
    ] as const
  ).map(
    ([status, error]): Row => ({
      call: "POST /deploy/llm/placement",
      status,
      body: llm,
      given: refuse("placement", "dryRunNew")(error),
    }),
  ),
  {
    call: "POST /deploy/llm",
    status: 422,
    body: { ...llm, standard_args: { gpu_memory_fraction: 0.2 } },
    holds: { detail: [{ loc: ["body", "standard_args", "gpu_memory_fraction"], type: "greater_than_equal" }] },
  },
  {
    call: "POST /deploy/llm",
    status: 422,
    body: { ...llm, standard_args: { max_concurent_requests: 2 } },
    holds: { detail: [{ loc: ["body", "standard_args", "max_concurent_requests"], type: "extra_forbidden" }] },
  },
  {
    call: "POST /deploy/llm",
    status: 422,
    body: { ...llm, preset_id: "fast" },
    holds: { detail: [{ loc: ["body", "preset_id"] }] },
  },
  { call: "GET /deploy/list", status: 200 },
  { call: "GET /deploy/list/?status=running,failed", status: 200 },
  { call: "GET /deploy/list?status=asleep", status: 400 },
  {
    call: `GET /deploy/${id}`,
    status: 200,
    holds: {
      deploy_id: id,
      type: "llm",
      created_at: "2026-01-02T03:04:05+00:00",
      updated_at: "2026-01-02T03:09:05+00:00",
      instances: { running: 1, pending: 0 },
      config: {
        gpu: "H100-80GB",
        num_gpus: 2,
        max_batch_size: 64,
        weights: { repo: "org/w", revision: "main", token: "********" },
      },
      settings: { min_instances: 1, max_instances: 2 },
    },
  },
  { call: "GET /deploy/unknown", status: 404, holds: { code: "deployment_not_found" } },
  { call: `GET /deploy/${id}`, status: 404, key: adminKey },
  {
    call: `PUT /deploy/${id}`,
    status: 200,
    body: { settings: { min_instances: 1, max_instances: 2 } },
    holds: { deploy_id: id },
  },
  { call: `PUT /deploy/${id}`, status: 422, body: { settings: { max_instances: 0 } } },
  { call: `PUT /deploy/${id}`, status: 422, body: { settings: { inactive_shutdown: 59 } } },
  {
    call: `PUT /deploy/${id}`,
    status: 402,
    body: { settings: { min_instances: 2 } },
    given: refuse("deployments", "update")(new deployments.NoFunds()),
    headers: { "x-should-retry": "false" },
  },
  {
    call: `PUT /deploy/${id}`,
    status: 409,
    body: {},
    given: refuse("deployments", "update")(new deployments.DeploymentConflict("x")),
  },
  {
    call: `PUT /deploy/${id}`,
    status: 400,
    body: {},
    given: refuse("deployments", "update")(new deployments.WrongDeploymentState("x")),
  },
  { call: "PUT /deploy/unknown", status: 404, body: {} },
  { call: `DELETE /deploy/${id}`, status: 200, holds: { deploy_id: id } },
  { call: "DELETE /deploy/unknown", status: 404 },
  { call: `POST /deploy/${id}/stop`, status: 200, holds: { deploy_id: id } },
  { call: `POST /deploy/${id}/start`, status: 200 },
  {
    call: `POST /deploy/${id}/start`,
    status: 400,
    given: refuse("deployments", "start")(new deployments.WrongDeploymentState("x")),
    holds: { code: "wrong_state" },
  },
  {
    call: `POST /deploy/${id}/start`,
    status: 402,
    given: refuse("deployments", "start")(new deployments.NoFunds(5_000_000_000n)),
    holds: { code: "insufficient_quota" },
    headers: { "x-should-retry": "false" },
  },
  {
    call: `GET /v1/logs/query?deploy_id=${id}`,
    status: 200,
    holds: { entries: [["1682343934.123456789", "loading"]] },
  },
  {
    call: `GET /v1/logs/query?deploy_id=${id}&limit=1001`,
    status: 422,
    holds: { detail: [{ loc: ["query", "limit"], type: "less_than_equal" }] },
  },
  { call: `GET /v1/logs/query?deploy_id=${id}&from=100&to=9000000`, status: 400 },
  { call: "GET /v1/logs/query?deploy_id=unknown", status: 404 },
  {
    call: `GET /v1/logs/query?deploy_id=${id}`,
    status: 503,
    given: refuse("deployments", "logs")(new deployments.LogsUnavailable("x")),
  },

  {
    call: "POST /v1/admin/accounts",
    status: 200,
    key: adminKey,
    body: account,
    holds: { uid: "u:1000000000002", api_key: "stk_made" },
    headers: { "cache-control": "no-store" },
  },
  { call: "POST /v1/admin/accounts", status: 403, body: account, holds: { code: "admin_only" } },
  { call: "POST /v1/admin/accounts", status: 401, body: account, key: null },
  {
    call: "POST /v1/admin/accounts",
    status: 409,
    key: adminKey,
    body: account,
    given: refuse("accounts", "create")(new accounts.AccountNameTaken("taken", { param: "email" })),
  },
  {
    call: "POST /v1/admin/accounts",
    status: 422,
    key: adminKey,
    body: { email: "x@y", display_name: "-a" },
    holds: { detail: [{ loc: ["body", "display_name"], type: "string_pattern" }] },
  },
  {
    call: "POST /v1/admin/accounts",
    status: 422,
    key: adminKey,
    body: { email: "no\u0000pe@b.c", display_name: "a" },
    holds: { detail: [{ loc: ["body", "email"], type: "string_pattern" }] },
  },
  {
    call: "PUT /v1/admin/models/org/model",
    status: 200,
    key: adminKey,
    body: offer,
    holds: { model_name: "org/model", deploy_id: id, pricing: { input: 0.02, cached_input: 0.01, output: 0.04 } },
  },
  { call: "PUT /v1/admin/models/org/model", status: 403, body: offer },
  {
    call: "PUT /v1/admin/models/org/model",
    status: 404,
    key: adminKey,
    body: offer,
    given: refuse("admin", "offerModel")(new OfferedDeploymentUnknown()),
  },
  {
    call: "PUT /v1/admin/models/org/model",
    status: 422,
    key: adminKey,
    body: { deploy_id: id },
    holds: { detail: [{ loc: ["body", "pricing"], type: "missing" }] },
  },
  {
    call: "PUT /v1/admin/models/a/b/c",
    status: 422,
    key: adminKey,
    body: offer,
    given: refuse("admin", "offerModel")(new OfferRefused("no", { param: "name" })),
  },
  { call: "POST /v1/admin/external", status: 200, key: adminKey, body: external, holds: { model_name: "bench" } },
  { call: "POST /v1/admin/external", status: 403, body: external },
  {
    call: "POST /v1/admin/external",
    status: 404,
    key: adminKey,
    body: external,
    given: refuse("admin", "createExternal")(new deployments.HostNotFound("x")),
  },
  { call: "GET /v1/admin/nodes", status: 200, key: adminKey, holds: { nodes: [{ state: "ready" }] } },
  { call: "GET /v1/admin/hosts", status: 200, key: adminKey, holds: { hosts: [{ name: "node-1" }] } },
  { call: "GET /v1/admin/nodes", status: 403 },
  {
    call: "GET /v1/admin/nodes/node-1",
    status: 200,
    key: adminKey,
    holds: {
      figures_age_seconds: 1.5,
      gpu_sample_age_seconds: 2,
      gpus: [{ deploy_id: "D000000000000001", utilization_ratio: 0.25, temperature_celsius: null, is_healthy: false }],
      instances: [{ phase: "ready", in_flight: 3, tokens_per_second: 40.5, kv_cache_ratio: null }],
      disks: [],
    },
  },
  { call: "GET /v1/admin/nodes/node-1", status: 403 },
  { call: "GET /v1/admin/nodes/other", status: 404, key: adminKey, holds: { code: "node_not_found" } },
  {
    call: "POST /v1/admin/nodes/node-1/uncordon",
    status: 200,
    key: adminKey,
    body: { gpu: "GPU-0", note: "replaced" },
    holds: { name: "node-1" },
  },
  { call: "POST /v1/admin/nodes/node-1/uncordon", status: 403, body: {} },
  {
    call: "POST /v1/admin/nodes/node-1/uncordon",
    status: 422,
    key: adminKey,
    body: { gpu: 7 },
    holds: { detail: [{ loc: ["body", "gpu"] }] },
  },
  {
    call: "POST /v1/admin/nodes/node-1/uncordon",
    status: 409,
    key: adminKey,
    body: {},
    given: refuse("admin", "uncordon")(new NothingCordoned("node-1", undefined)),
    holds: { code: "nothing_cordoned" },
  },
  {
    call: "POST /v1/admin/nodes/other/uncordon",
    status: 404,
    key: adminKey,
    body: {},
    given: refuse("admin", "uncordon")(new NodeNotFound("other")),
  },
];

describe("every endpoint of deployments and the operator, and its statuses", () => {
  it.each(rows.map((row) => [`${row.call} ${row.status}`, row] as const))("%s", (_name, row) => check(row));
});
