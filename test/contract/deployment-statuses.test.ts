// Deployments by every way to create one, while no host has a GPU for them: every endpoint and its statuses.
import { randomBytes } from "node:crypto";
import { describe, expect } from "vitest";
import { hubRepo } from "./installation.ts";
import {
  checkStatuses,
  createCustomer,
  operate,
  operatorKey,
  type StatusRow,
  succeed,
  suspended,
  type Values,
  write,
} from "./status-table.ts";

const office = { days: ["mon"], from: "08:00", to: "18:00", time_zone: "Europe/Berlin", min_instances: 1 };
const one = "/deploy/{deploy}";
const noRetry = { "x-should-retry": "false" };
/** The hub tells strangers nothing about it, so what it holds is not checked. */
const hf = { repo: "acme/private" };
const llm = { model_name: "{model}", gpu: "other", hf };
const legacy = { model_name: hubRepo, task: "embeddings", gpu: "other" };
const image = { provider: "cnt", model_name: "registry.example/{name}/whisper:1", gpu: "other" };
/** A repository without weights of a language model. */
const unfit = { gpu: "H100-80GB", hf: { repo: hubRepo } };
/** A model that every installation offers. */
const offered = "sentence-transformers/all-MiniLM-L6-v2";
const sameModel = { provider: "stoker", model_name: offered, gpu: "other" };
/** Its first five minutes cost USD 50. */
const priced = "L40S-48GB";

/** An account with names that are free. */
async function newAccount(): Promise<Values> {
  const { uid, key, name } = await createCustomer();
  return { uid, key, name, model: `${name}/llm-${randomBytes(4).toString("hex")}` };
}

async function deployed(gpu = "other"): Promise<Values> {
  const values = await newAccount();
  const { deploy_id } = await succeed({ call: "POST /deploy/llm", body: { ...llm, gpu } }, values);
  return { ...values, deploy: deploy_id };
}

async function stopped(gpu = "other"): Promise<Values> {
  const values = await deployed(gpu);
  await succeed({ call: `POST ${one}/stop` }, values);
  await expect.poll(async () => (await succeed({ call: `GET ${one}` }, values)).status).toBe("stopped");
  return values;
}

/** As its controller ends one that does not come up. */
async function failed(): Promise<Values> {
  const values = await stopped();
  await write("update deployment set status = 'failed', revision = revision + 1 where deploy_id = $1", [
    values["deploy"],
  ]);
  return values;
}

async function deleted(): Promise<Values> {
  const values = await deployed();
  await succeed({ call: `DELETE ${one}` }, values);
  return values;
}

/** Leaves USD 5: an account without any is suspended. */
async function withoutFunds(values: Values): Promise<Values> {
  const body = { amount_usd: -95, note: "a test" };
  await operate(`POST /v1/admin/accounts/${values["uid"]}/credit`, body);
  return values;
}

const hfPlacement = "POST /deploy/hf/placement";
const missing = expect.objectContaining({ loc: ["body", "model_name"], type: "missing" });

/** What every way to create a deployment refuses. */
const creations = (
  [
    ["POST /deploy/llm", llm],
    ["POST /deploy/hf/", legacy],
    ["POST /v1/deploy", image],
  ] as const
).flatMap(([call, body]): StatusRow[] => [
  { call, status: 200, given: newAccount, body, holds: { deploy_id: expect.any(String), status: "initializing" } },
  { call, status: 401, body, key: null },
  { call, status: 400, body: "{", holds: { code: "json_invalid" } },
  {
    call,
    status: 402,
    given: async () => withoutFunds(await newAccount()),
    body: { ...body, gpu: priced },
    headers: noRetry,
  },
  {
    call,
    status: 409,
    given: async () => {
      const values = await newAccount();
      await succeed({ call, body }, values);
      return values;
    },
    body,
    headers: noRetry,
  },
  { call, status: 422, body: {}, holds: { detail: expect.arrayContaining([missing]) } },
  {
    call,
    status: 423,
    given: () => suspended(newAccount()),
    body,
    holds: { code: "account_suspended" },
  },
]);

const rows: readonly StatusRow[] = [
  {
    call: `GET ${one}/versions`,
    status: 200,
    given: () => deployed(),
    holds: { versions: [{ version: 1, extra_args: [], is_desired: true }] },
  },
  { call: `GET ${one}/versions`, status: 401, key: null, given: () => deployed() },
  { call: "GET /deploy/unknown/versions", status: 404, holds: { code: "deployment_not_found" } },
  {
    call: `POST ${one}/rollback`,
    status: 200,
    given: () => deployed(),
    body: { version: 1 },
    holds: { version: 1 },
  },
  { call: `POST ${one}/rollback`, status: 401, key: null, given: () => deployed(), body: {} },
  { call: "POST /deploy/unknown/rollback", status: 404, body: {}, holds: { code: "deployment_not_found" } },
  {
    call: `POST ${one}/rollback`,
    status: 409,
    given: () => deployed(),
    body: {},
    holds: { error: "This deployment has no earlier version." },
  },
  { call: `POST ${one}/rollback`, status: 422, given: () => deployed(), body: { version: "first" } },
  ...creations,
  { call: "POST /deploy/llm", status: 404, body: { model_name: "{model}", gpu: "other", base_model: "x" } },
  {
    call: "POST /deploy/llm",
    status: 422,
    body: { ...llm, gpu: "H100" },
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
    given: newAccount,
    body: { ...llm, ...unfit },
    holds: { detail: [{ loc: ["body", "hf", "repo"] }] },
  },
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
    status: 200,
    given: newAccount,
    body: { ...llm, engine: "vllm", extra_args: ["--max-model-len", "2048", "--dtype=half"] },
    holds: { extra_args: ["--max-model-len=2048", "--dtype=half"] },
  },
  {
    call: "POST /deploy/llm",
    status: 422,
    given: newAccount,
    body: { ...llm, engine: "vllm", extra_args: ["--max-model-len", "2048", "4096"] },
    holds: { detail: [{ loc: ["body", "extra_args"] }] },
  },
  {
    call: "POST /deploy/llm",
    status: 422,
    body: { ...llm, preset_id: "fast" },
    holds: { detail: [{ loc: ["body", "preset_id"] }] },
  },
  {
    call: "POST /deploy/hf/",
    status: 404,
    body: { ...legacy, model_name: "acme/unknown" },
    holds: { code: "model_not_found" },
  },
  {
    call: "POST /deploy/hf/",
    status: 422,
    body: { ...legacy, task: "fortune-telling" },
    holds: { detail: [{ loc: ["body", "task"], type: "enum" }] },
  },
  {
    call: "POST /v1/deploy",
    status: 404,
    body: { provider: "huggingface", model_name: hubRepo, version: "no-such-revision", gpu: "other" },
    holds: { code: "model_not_found" },
  },
  {
    call: "POST /v1/deploy",
    status: 404,
    body: { ...sameModel, version: "no-such-version" },
    holds: { code: "model_not_found" },
  },
  { call: "POST /v1/deploy", status: 200, given: newAccount, body: { ...sameModel, version: null } },
  {
    call: "POST /v1/deploy",
    status: 422,
    body: { ...image, provider: "elsewhere" },
    holds: { detail: [{ loc: ["body", "provider"], type: "enum" }] },
  },

  { call: "GET /deploy/llm/gpu_availability?source=&base_model=", status: 200, holds: { gpus: [] } },
  { call: "GET /deploy/llm/gpu_availability", status: 401, key: null },
  { call: "GET /deploy/llm/gpu_availability?base_model=x", status: 404 },
  { call: `GET /deploy/llm/gpu_availability?source=${"x".repeat(300)}`, status: 422 },
  { call: `GET ${one}/placement`, status: 200, holds: { fits: false, refused: [] } },
  { call: `GET ${one}/placement`, status: 404, key: operatorKey },
  {
    call: "POST /deploy/llm/placement",
    status: 200,
    given: newAccount,
    body: { ...llm, hf: { repo: hubRepo }, gpu: "other" },
    holds: { fits: false, refused: [], engine: expect.any(String), repository: "found" },
  },
  {
    call: "POST /deploy/llm/placement",
    status: 404,
    given: newAccount,
    body: { ...llm, hf: { repo: "acme/unknown" } },
    holds: { code: "model_not_found" },
  },
  { call: "POST /deploy/llm/placement", status: 401, body: llm, key: null },
  { call: "POST /deploy/llm/placement", status: 400, body: "{", holds: { code: "json_invalid" } },
  {
    call: "POST /deploy/llm/placement",
    status: 402,
    given: async () => withoutFunds(await newAccount()),
    body: { ...llm, gpu: priced },
  },
  {
    call: "POST /deploy/llm/placement",
    status: 404,
    given: newAccount,
    body: { model_name: "{model}", gpu: "other", base_model: "x" },
  },
  { call: "POST /deploy/llm/placement", status: 409, body: llm },
  { call: "POST /deploy/llm/placement", status: 422, given: newAccount, body: { ...llm, ...unfit } },
  { call: "POST /deploy/llm/placement", status: 423, given: () => suspended(newAccount()), body: llm },

  {
    call: hfPlacement,
    status: 200,
    given: newAccount,
    body: legacy,
    holds: { fits: false, refused: [], repository: expect.any(String) },
  },
  { call: hfPlacement, status: 401, body: legacy, key: null },
  { call: hfPlacement, status: 400, body: "{", holds: { code: "json_invalid" } },
  {
    call: hfPlacement,
    status: 402,
    given: async () => withoutFunds(await newAccount()),
    body: { ...legacy, gpu: priced },
  },
  {
    call: hfPlacement,
    status: 404,
    given: newAccount,
    body: { ...legacy, model_name: "acme/unknown" },
    holds: { code: "model_not_found" },
  },
  {
    call: hfPlacement,
    status: 409,
    given: async () => {
      const values = await newAccount();
      await succeed({ call: "POST /deploy/hf/", body: legacy }, values);
      return values;
    },
    body: legacy,
  },
  { call: hfPlacement, status: 422, given: newAccount, body: { ...legacy, num_gpus: 0 } },
  { call: hfPlacement, status: 423, given: () => suspended(newAccount()), body: legacy },

  { call: "GET /deploy/list", status: 200, given: () => deployed(), holds: [{ deploy_id: "{deploy}" }] },
  { call: "GET /deploy/list/?status=running,failed", status: 200 },
  { call: "GET /deploy/list?status=asleep", status: 400 },
  {
    call: `GET ${one}`,
    status: 200,
    holds: {
      deploy_id: "{deploy}",
      type: "llm",
      status: "initializing",
      instances: { running: 0, pending: 1 },
      config: { gpu: "other", num_gpus: 1, weights: { repo: "acme/private" } },
      settings: { min_instances: 1, max_instances: 1 },
    },
  },
  { call: "GET /deploy/unknown", status: 404, holds: { code: "deployment_not_found" } },
  { call: `GET ${one}`, status: 404, key: operatorKey },
  {
    call: `PUT ${one}`,
    status: 200,
    body: { settings: { min_instances: 1, max_instances: 2 } },
    holds: { deploy_id: "{deploy}" },
  },
  { call: `PUT ${one}`, status: 200, given: () => deployed(), body: { extra_args: ["--max-model-len", "2048"] } },
  { call: `PUT ${one}`, status: 422, body: { settings: { max_instances: 0 } } },
  { call: `PUT ${one}`, status: 422, body: { settings: { inactive_shutdown: 59 } } },
  {
    call: `PUT ${one}`,
    status: 200,
    given: () => deployed(),
    body: { settings: { target_ttft_ms: 1500, target_queue_ms: 200, schedules: [office] } },
  },
  { call: `PUT ${one}`, status: 422, body: { settings: { target_ttft_ms: 0 } } },
  { call: `PUT ${one}`, status: 422, body: { settings: { schedules: Array(21).fill(office) } } },
  { call: `PUT ${one}`, status: 422, body: { settings: { schedules: [{ ...office, from: "8:00" }] } } },
  { call: `PUT ${one}`, status: 422, body: { settings: { schedules: [{ ...office, days: ["monday"] }] } } },
  {
    call: `PUT ${one}`,
    status: 422,
    given: () => deployed(),
    body: { settings: { schedules: [{ ...office, time_zone: "Mars/Olympus" }] } },
  },
  {
    call: `PUT ${one}`,
    status: 402,
    given: async () => withoutFunds(await deployed(priced)),
    body: { settings: { min_instances: 2, max_instances: 2 } },
    headers: noRetry,
  },
  { call: `PUT ${one}`, status: 409, given: deleted, body: { settings: { max_instances: 2 } } },
  {
    call: `PUT ${one}`,
    status: 400,
    given: failed,
    body: { settings: { min_instances: 1 } },
    holds: { code: "wrong_state" },
  },
  {
    call: `PUT ${one}`,
    status: 423,
    given: () => suspended(deployed()),
    body: { settings: { max_instances: 3 } },
    holds: { code: "account_suspended" },
  },
  { call: "PUT /deploy/unknown", status: 404, body: {} },
  { call: `POST ${one}/stop`, status: 200, given: () => deployed(), holds: { deploy_id: "{deploy}" } },
  { call: `POST ${one}/start`, status: 200, given: () => stopped() },
  { call: `POST ${one}/start`, status: 400, holds: { code: "wrong_state" } },
  {
    call: `POST ${one}/start`,
    status: 402,
    given: async () => withoutFunds(await stopped(priced)),
    holds: { code: "insufficient_quota" },
    headers: noRetry,
  },
  {
    call: `POST ${one}/start`,
    status: 423,
    given: () => suspended(stopped()),
    holds: { code: "account_suspended" },
  },
  { call: `DELETE ${one}`, status: 200, given: () => deployed(), holds: { deploy_id: "{deploy}" } },
  { call: "DELETE /deploy/unknown", status: 404 },

  ...["stats", "stats2"].flatMap((what): StatusRow[] => [
    { call: `GET ${one}/${what}?from=now-5h`, status: 401, key: null },
    { call: `GET /deploy/NotMine/${what}`, status: 404 },
    { call: `GET ${one}/${what}?from=now-5h`, status: 410, given: deleted, holds: { code: "deployment_deleted" } },
    { call: `GET ${one}/${what}?from=yesterday`, status: 422, holds: { detail: [{ loc: ["query", "from"] }] } },
  ]),
  { call: `GET ${one}/stats?from=now-5h&to=now`, status: 200, holds: { requests: 0, total_amount: 0, errors: 0 } },
  { call: `GET ${one}/stats2`, status: 200, holds: { llm: { requests: 0 }, embeddings: null, time: null } },
  { call: "GET /deploy/stats?from=now-1w", status: 200 },
  { call: "GET /deploy/stats", status: 401, key: null },
  { call: "GET /deploy/stats?from=now-5y", status: 422, holds: { detail: [{ loc: ["query", "from"] }] } },
  { call: "GET /v1/deployments/{deploy}/series?from=now-24h&steps=24", status: 200, holds: { step_seconds: 3600 } },
  { call: "GET /v1/deployments/{deploy}/series?from=now-24h", status: 410, given: deleted },

  {
    call: "PUT /v1/admin/deployments/{deploy}/prefix-cache",
    status: 200,
    key: operatorKey,
    body: { shared: true, note: "one company" },
    holds: { deploy_id: "{deploy}", shared: true },
  },
  { call: "PUT /v1/admin/deployments/{deploy}/prefix-cache", status: 401, key: null, body: { shared: true } },
  {
    call: "PUT /v1/admin/deployments/{deploy}/prefix-cache",
    status: 403,
    body: { shared: true },
    holds: { code: "admin_only" },
  },
  { call: "PUT /v1/admin/deployments/unknown/prefix-cache", status: 404, key: operatorKey, body: { shared: true } },
  {
    call: "PUT /v1/admin/deployments/{deploy}/prefix-cache",
    status: 422,
    key: operatorKey,
    body: {},
    holds: { detail: [{ loc: ["body", "shared"], type: "missing" }] },
  },

  {
    call: "PUT /v1/admin/models/org/{name}",
    status: 200,
    key: operatorKey,
    body: { deploy_id: "{deploy}", pricing: { input: 0.02, cached_input: 0.01, output: 0.04 } },
    holds: {
      model_name: "org/{name}",
      deploy_id: "{deploy}",
      pricing: { input: 0.02, cached_input: 0.01, output: 0.04 },
    },
  },
  {
    call: "PUT /v1/admin/models/org/{name}",
    status: 403,
    body: { deploy_id: "{deploy}", pricing: { input: 0, cached_input: 0, output: 0 } },
  },
  {
    call: "PUT /v1/admin/models/org/{name}",
    status: 404,
    key: operatorKey,
    body: { deploy_id: "unknown", pricing: { input: 0, cached_input: 0, output: 0 } },
  },
  {
    call: "PUT /v1/admin/models/org/{name}",
    status: 422,
    key: operatorKey,
    body: { deploy_id: "{deploy}" },
    holds: { detail: [{ loc: ["body", "pricing"], type: "missing" }] },
  },
  {
    call: "PUT /v1/admin/models/a/b/c",
    status: 422,
    key: operatorKey,
    body: { deploy_id: "{deploy}", pricing: { input: 0, cached_input: 0, output: 0 } },
  },
  {
    call: "POST /v1/admin/external",
    status: 404,
    key: operatorKey,
    body: { name: "bench", url: "http://127.0.0.1:9", host_id: "unknown" },
  },
  { call: "POST /v1/admin/external", status: 403, body: { name: "bench", url: "http://127.0.0.1:9" } },
  {
    call: "POST /v1/admin/external",
    status: 200,
    key: operatorKey,
    body: { name: "bench-{name}", url: "http://127.0.0.1:9" },
    holds: { model_name: "bench-{name}" },
  },

  {
    call: "POST /v1/admin/accounts",
    status: 200,
    key: operatorKey,
    body: { email: "b-{name}@example.com", display_name: "b-{name}", credit_usd: 5 },
    holds: { uid: expect.stringMatching(/^u:/), api_key: expect.stringMatching(/^stk_/) },
    headers: { "cache-control": "no-store" },
  },
  {
    call: "POST /v1/admin/accounts",
    status: 403,
    body: { email: "b@example.com", display_name: "bob" },
    holds: { code: "admin_only" },
  },
  { call: "POST /v1/admin/accounts", status: 401, body: { email: "b@example.com", display_name: "bob" }, key: null },
  {
    call: "POST /v1/admin/accounts",
    status: 409,
    key: operatorKey,
    body: { email: "{name}@example.com", display_name: "c-{name}" },
  },
  {
    call: "POST /v1/admin/accounts",
    status: 422,
    key: operatorKey,
    body: { email: "x@y", display_name: "-a" },
    holds: { detail: [{ loc: ["body", "display_name"], type: "string_pattern" }] },
  },
  {
    call: "POST /v1/admin/accounts",
    status: 422,
    key: operatorKey,
    body: { email: "no\u0000pe@b.c", display_name: "a" },
    holds: { detail: [{ loc: ["body", "email"], type: "string_pattern" }] },
  },
];

async function arrange(): Promise<Values> {
  await operate("POST /v1/admin/prices", { kind: "gpu", subject: priced, rates: { hour: 600 } });
  return deployed();
}

describe("deployments", () => {
  checkStatuses(arrange, rows);
});
