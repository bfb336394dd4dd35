// Every management operation that declares 503, called while PostgreSQL is stopped.
import { createHmac } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { invoiceLinkKey, resultsLinkKey } from "../../control-plane/accounts/seals.ts";
import { readSecretFiles } from "../../control-plane/accounts/secret-files.ts";
import type { Stack } from "../fakes/processes.ts";
import { describedOperations, type Operation } from "./described-operations.ts";
import { hubRepo, startInstallation, stripeWebhookSecret, unreachableStripe } from "./installation.ts";

let stack: Stack;
/** Headers of a signed-in browser. */
let session: Record<string, string>;
let scopedToken: string;
const model = "admin/unserved";
const offered = "org/unserved";
const password = "a fine long passphrase 7";
const sshKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl ada";

beforeAll(async () => {
  stack = await startInstallation({ controlPlaneEnv: { ...unreachableStripe, HF_HUB_OFFLINE: "1" } });
  const made = async (method: string, path: string, body: unknown) => {
    const reply = await stack.call(method, path, body);
    expect(reply.status, `${path}: ${JSON.stringify(reply.body)}`).toBe(200);
    return reply.body;
  };
  // Keys and models that a control plane has seen stay in its memory.
  const me = (await stack.call("GET", "/v1/me")).body;
  scopedToken = (await made("POST", "/v1/scoped-jwt", { api_key_name: "auto" })).token;
  const deployed = await made("POST", "/deploy/llm", { model_name: model, gpu: "other", hf: { repo: hubRepo } });
  const pricing = { input: 1, output: 1 };
  await made("PUT", `/v1/admin/models/${offered}`, { deploy_id: deployed.deploy_id, pricing });
  await made("POST", "/v1/me/password", { password });
  const signedIn = await fetch(`${stack.url}/v1/auth/sign-in`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ email: me.email, password }),
  });
  const cookies = signedIn.headers.getSetCookie().map((cookie) => cookie.split(";")[0]);
  const { csrf_token } = (await signedIn.json()) as { csrf_token: string };
  session = { cookie: cookies.join("; "), "x-csrf-token": csrf_token };
  await stack.postgres.kill9();
});
afterAll(() => stack?.stop());

/** What an operation's published example leaves open. */
interface Call {
  readonly path?: () => string;
  readonly body?: unknown;
  readonly headers?: () => Record<string, string>;
}

const inSession: Call = { headers: () => session };
const invoiceId = "inv_unknown";
const resultsId = "UnknownRequest0000000000";
const secrets = () => readSecretFiles(stack.secretsDir, true);
const expires = String(Math.floor(Date.now() / 1000) + 3_600);
const stripeEvent = JSON.stringify({
  ...{ id: "evt_1", object: "event", type: "payment_intent.succeeded" },
  data: { object: { id: "pi_1", currency: "usd", amount_received: 100, metadata: { stoker_account: "u:1" } } },
});
const ofModel = (rest = ""): Call => ({ path: () => `/models/${model}${rest}` });
const quarantined = (verb: string): Call => ({ path: () => `/v1/admin/usage-quarantine/1/${verb}` });

const calls: Readonly<Record<string, Call>> = {
  "POST /v1/ssh_keys": { body: { name: "laptop", key: sshKey } },
  "POST /v1/messages/batches": {
    body: {
      requests: [{ custom_id: "a", params: { model, max_tokens: 1, messages: [{ role: "user", content: "a" }] } }],
    },
  },
  "PUT /v1/model-aliases/{model_name}": { body: { targets: [{ model }] } },
  "PUT /v1/admin/model-aliases/{model_name}": { body: { targets: [{ model: offered }] } },
  // Without a credential it is answered from memory.
  "GET /v1/metrics/live": { path: () => "/v1/metrics/live?scope=account" },
  "GET /payment/usage/rent": { path: () => "/payment/usage/rent?from=1" },
  "GET /v1/invoice-exports/{month}": { path: () => "/v1/invoice-exports/current" },
  "GET /invoices/{invoice_id}": {
    path: () =>
      `/invoices/${invoiceId}?sig=${createHmac("sha256", invoiceLinkKey(secrets())).update(invoiceId).digest("base64url")}`,
  },
  "GET /v1/auth/session": inSession,
  "POST /v1/auth/sign-out": inSession,
  "POST /v1/me/factors": inSession,
  "PUT /v1/me/factors": inSession,
  "DELETE /v1/me/factors/{id}": inSession,
  "POST /v1/me/recovery-codes": inSession,
  "POST /v1/me/identities": inSession,
  "DELETE /v1/me/identities/{id}": inSession,
  "GET /v1/scoped-jwt": { path: () => `/v1/scoped-jwt?jwtoken=${scopedToken}` },
  "POST /payment/stripe/webhook": {
    body: stripeEvent,
    headers: () => {
      const seconds = Math.floor(Date.now() / 1000);
      const signature = createHmac("sha256", stripeWebhookSecret).update(`${seconds}.${stripeEvent}`).digest("hex");
      return { "stripe-signature": `t=${seconds},v1=${signature}` };
    },
  },
  "POST /v1/admin/usage-quarantine/{record_id}/release": quarantined("release"),
  "POST /v1/admin/usage-quarantine/{record_id}/discard": quarantined("discard"),
  "GET /github/cli/login": { path: () => `/github/cli/login?login_id=${"l".repeat(32)}` },
  "GET /models/{model_name}": ofModel(),
  "DELETE /models/{model_name}": ofModel("?version=ALL"),
  "GET /models/{model_name}/versions": ofModel("/versions"),
  "POST /models/{model_name}/meta": ofModel("/meta"),
  "POST /models/{model_name}/publicity": ofModel("/publicity"),
  "POST /v1/lora/create": {
    body: {
      ...{ lora_name: "admin/lora", base_model: model },
      source: { type: "huggingface", repo: hubRepo },
    },
  },
  "POST /v1/deploy": { body: { provider: "cnt", model_name: "registry.example.com/acme/model:1" } },
  "POST /v1/agent": { body: { name: "mine", agent_type_id: "workspace", plan_id: "standard" } },
  "GET /v1/webhooks/results/{request_id}": {
    path: () => {
      const key = resultsLinkKey(secrets());
      const signature = createHmac("sha256", key).update(`${resultsId}.${expires}`).digest("base64url");
      return `/v1/webhooks/results/${resultsId}?expires=${expires}&sig=${signature}`;
    },
  },
};

/** Inference goes on without its records for a while: test/chaos/database-away.test.ts. */
const isInference = ({ method, operation }: Operation) => method === "POST" && operation.tags?.[0] === "inference";
/** A control plane is ready while slices of budgets live, 30 s after the database is gone: injected-statuses.test.ts. */
const isReadiness = ({ path }: Operation) => path === "/readyz";
/** They ask another server, and need no database, or refuse before they do: catalog/hub-search.test.ts, billing/alert-mails.test.ts. */
const isElsewhere = ({ path }: Operation) =>
  ["/v1/hub/models", "/v1/admin/mail/test", "/v1/auth/reset-password"].includes(path);
const operations = describedOperations().filter(
  (one) => one.operation.responses["503"] && !isInference(one) && !isReadiness(one) && !isElsewhere(one),
);

function request({ method, path, operation }: Operation): Promise<Response> {
  const call = calls[`${method} ${path}`] ?? {};
  const query = new URLSearchParams();
  for (const { name, in: where, required, schema } of operation.parameters ?? [])
    if (where === "query" && required) query.set(name, String(schema?.enum?.[0] ?? "current"));
  const url = call.path?.() ?? `${path.replaceAll(/\{\w+\}/g, "one")}${query.size > 0 ? `?${query}` : ""}`;
  const [type, media] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
  const body = call.body ?? media?.example;
  const isForm = type?.startsWith("multipart/");
  const headers = {
    ...(call.headers?.() ?? { authorization: `Bearer ${stack.apiKey}` }),
    ...(body === undefined || isForm ? {} : { "content-type": "application/json" }),
  };
  return fetch(`${stack.url}${url}`, {
    ...{ method, headers, signal: AbortSignal.timeout(10_000) },
    ...(body === undefined ? {} : { body: isForm ? formOf(body as object) : bodyOf(body) }),
  });
}

const bodyOf = (body: unknown) => (typeof body === "string" ? body : JSON.stringify(body));

/** Names of files stand for their content in examples. */
function formOf(fields: object): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields))
    for (const one of [value].flat())
      if (/^file|samples$/.test(name)) form.append(name, new Blob(["{}"]), String(one));
      else form.append(name, typeof one === "object" ? JSON.stringify(one) : String(one));
  return form;
}

it("finds the operations to call", () => {
  expect(operations.length).toBeGreaterThan(170);
  const known = new Set(operations.map(({ method, path }) => `${method} ${path}`));
  expect(Object.keys(calls).filter((name) => !known.has(name))).toEqual([]);
});

describe("while PostgreSQL is stopped", () => {
  it.each(operations)("returns 503 within a second for $method $path", async (operation) => {
    // Other work of the machine can only lengthen a call: the quickest of three counts.
    const tookMs: number[] = [];
    do {
      const startMs = performance.now();
      const response = await request(operation);
      const text = await response.text();
      tookMs.push(performance.now() - startMs);
      expect(response.status, text).toBe(503);
      expect(text).toContain("store_away");
      expect(response.headers.get("retry-after")).toBe("2");
    } while (Math.min(...tookMs) >= 1_000 && tookMs.length < 3);
    expect(Math.min(...tookMs)).toBeLessThan(1_000);
  });
});
