// Tenancy, generated from the OpenAPI document of a running control plane: whatever names a thing of one account answers
// another account as it answers a thing that does not exist, and lists hold nothing of others.

import { pino } from "pino";
import { beforeAll, describe, expect, it } from "vitest";
import type { VoiceId } from "../../control-plane/assets/store.ts";
import type { BatchId } from "../../control-plane/batches/store.ts";
import { openDatabase } from "../../control-plane/store/core/database.ts";
import type { AccountId, KeyId, RequestId } from "../../proto/ids.ts";
import { makeAgentInstance } from "../fakes/agent-instance-rows.ts";
import { makeContainer } from "../fakes/container-rows.ts";
import { makeRequest } from "../fakes/request-rows.ts";
import { type Customer, createCustomer, installation, operate } from "./status-table.ts";

interface Answer {
  readonly status: number;
  readonly text: string;
}
interface Operation {
  readonly security?: readonly unknown[];
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
}

/** What fills a parameter: a thing of the first account, and how a stranger's id of the same form looks. */
interface Thing {
  readonly own: string;
  readonly unknown: string;
}

let paths: Record<string, Record<string, Operation>>;
let ada: Customer;
let bob: Customer;
/** By the route's first words and the parameter's name. */
let things: Record<string, Thing>;
/** Everything that only the first account may see. */
let marks: string[];

const unknownLike = (id: string) => id.replace(/.$/, (last) => (last === "a" ? "b" : "a"));

async function as(who: Customer, method: string, path: string, body?: unknown): Promise<Answer> {
  const answer = await fetch(`${installation.url}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${who.key}`,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(30_000),
  });
  // The id of the request is the one thing that always differs.
  const text = (await answer.text()).replace(/"request_id":"[\w-]+"/, '"request_id":""');
  return { status: answer.status, text };
}

async function made(who: Customer, method: string, path: string, body: unknown): Promise<Record<string, string>> {
  const answer = await as(who, method, path, body);
  expect(answer.status, `${method} ${path}: ${answer.text}`).toBeLessThan(300);
  return JSON.parse(answer.text) as Record<string, string>;
}

/** Written as the server would: no model that measures recordings is served here. */
async function voiceOf({ uid }: Customer): Promise<string> {
  const { db, close } = openDatabase(installation.databaseUrl, { maxConnections: 1, log: pino({ level: "silent" }) });
  const voiceId = "AdasVoice00000000000" as VoiceId;
  await db
    .insertInto("voice")
    .values({ voiceId, accountId: uid as AccountId, name: "ada's voice", description: "" })
    .execute();
  await close();
  return voiceId;
}

/** Written as the server would: no model is served here. */
async function callOf({ uid }: Customer): Promise<string> {
  const { db, close } = openDatabase(installation.databaseUrl, { maxConnections: 1, log: pino({ level: "silent" }) });
  const webhookId = "msg_01KAJ000000000000000000000";
  const common = {
    requestId: "AdasRequest" as RequestId,
    accountId: uid as AccountId,
    url: "https://ada.example.com/hook",
    host: "ada.example.com",
  };
  const ended = { finishedAt: new Date(), claimId: null, lockedUntil: null };
  await db
    .insertInto("webhookJob")
    .values({
      ...common,
      ...ended,
      keyId: "" as KeyId,
      label: null,
      source: null,
      model: "m",
      body: null,
      origin: "",
      state: "succeeded",
      expiresAt: new Date(),
      errorCode: null,
      errorMessage: null,
    })
    .execute();
  await db
    .insertInto("webhookDelivery")
    .values({
      ...common,
      ...ended,
      webhookId,
      event: null,
      body: Buffer.from("{}"),
      results: null,
      state: "delivered",
      lastStatus: 204,
      lastOutcome: "ok",
    })
    .execute();
  await close();
  return webhookId;
}

/** Written as the server would at the end of a month. */
async function invoiceOf({ uid }: Customer): Promise<string> {
  const { db, close } = openDatabase(installation.databaseUrl, { maxConnections: 1, log: pino({ level: "silent" }) });
  const invoiceId = "inv_OfAda000000000000000";
  await db
    .insertInto("invoice")
    .values({
      invoiceId,
      accountId: uid as AccountId,
      month: 2026 * 12,
      total: 0n,
      dueAt: new Date(),
      paidAt: null,
      buyer: null,
    })
    .execute();
  await close();
  return invoiceId;
}

/** As a browser's form or a client library sends it. */
async function fileOf({ key }: Customer): Promise<string> {
  const form = new FormData();
  form.set("purpose", "batch");
  form.set("file", new Blob(["{}"]), "ada's requests.jsonl");
  const headers = { authorization: `Bearer ${key}` };
  const answer = await fetch(`${installation.url}/v1/files`, { method: "POST", headers, body: form });
  expect(answer.status).toBe(200);
  return ((await answer.json()) as { id: string }).id;
}

/** Written as the server would: it has ended, so that nothing changes it meanwhile. */
async function batchOf({ uid }: Customer, inputFileId: string, of?: "messages"): Promise<string> {
  const { db, close } = openDatabase(installation.databaseUrl, { maxConnections: 1, log: pino({ level: "silent" }) });
  const batchId = `batch_${of ?? ""}OfAda00000000` as BatchId;
  await db
    .insertInto("batch")
    .values({
      batchId,
      accountId: uid as AccountId,
      keyId: "" as KeyId,
      endpoint: of ? "/v1/messages" : "/v1/completions",
      inputFileId,
      outputFileId: of ? inputFileId : null,
      outputExpiresAfterMs: 1n,
      status: "completed",
      expiresAt: new Date(),
    })
    .execute();
  await close();
  return batchId;
}

beforeAll(async () => {
  paths = ((await (await fetch(`${installation.url}/openapi.json`)).json()) as { paths: typeof paths }).paths;
  [ada, bob] = [await createCustomer(), await createCustomer()];
  const deployed = await made(ada, "POST", "/deploy/llm", {
    model_name: `${ada.name}/secret-model`,
    gpu: "other",
    hf: { repo: "HuggingFaceTB/SmolLM2-135M-Instruct" },
  });
  const adapted = await made(ada, "POST", "/lora-model", {
    hf_model_name: "ada/secret-lora",
    lora_model_name: `${ada.name}/secret-lora`,
    base_model_name: `${ada.name}/secret-model`,
  });
  // Waits for its model, which never starts.
  const response = await made(ada, "POST", "/v1/responses", {
    model: `${ada.name}/secret-model`,
    input: "ada's question",
    store: true,
    background: true,
  });
  const ssh = await made(ada, "POST", "/v1/ssh_keys", {
    name: "ada's laptop",
    key: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl ada",
  });
  await operate(`PATCH /v1/admin/accounts/${ada.uid}`, { is_team_account: true });
  const project = await made(ada, "POST", "/v1/projects", { name: "ada's project" });
  const member = await made(ada, "POST", "/v1/service-accounts", { name: "ada's program", role: "developer" });
  const invitation = await made(ada, "POST", "/v1/invitations", { role: "viewer" });
  const rule = await made(ada, "POST", "/v1/workload-identities", {
    name: "adas-rule",
    issuer: "https://token.actions.githubusercontent.com",
    audience: "https://stoker.example.com",
    subject: "repo:ada/app:ref:refs/heads/main",
  });
  const token = await made(ada, "POST", "/v1/api-tokens", { name: "ada's second" });
  const asked = { reason: "more", requested_max: { "H100-80GB": 9 } };
  const pool = await made(ada, "POST", "/v1/me/gpu_pool/request", asked);
  const jwt = await made(ada, "POST", "/v1/scoped-jwt", { api_key_name: "auto", expires_delta: 600 });
  const agent = await makeAgentInstance(installation.databaseUrl, ada.uid);
  const file = await fileOf(ada);
  const own = (id: unknown): Thing => ({ own: String(id), unknown: unknownLike(String(id)) });
  const unknownKey = `stk_${"z".repeat(String(token["token"]).length - 4)}`;
  things = {
    "/deploy deploy_id": own(deployed["deploy_id"]),
    "/v1/deployments deploy_id": own(deployed["deploy_id"]),
    "/v1/requests request_id": own(await makeRequest(installation.databaseUrl, ada.uid)),
    "/v1/logs deploy_id": own(deployed["deploy_id"]),
    "/v1/deployment_logs deploy_id": own(deployed["deploy_id"]),
    "/v1/inference/deploy deploy_id": own(deployed["deploy_id"]),
    "/v1/lora lora_name": own(adapted["model_name"]),
    "/lora-model lora_model_name": own(adapted["model_name"]),
    "/v1/ssh_keys id": own(ssh["id"]),
    "/v1/workload-identities id": own(rule["id"]),
    "/v1/members id": own(member["id"]),
    "/v1/projects project_id": own(project["id"]),
    "/v1/invitations id": own(invitation["id"]),
    "/v1/containers container_id": own(await makeContainer(installation.databaseUrl, ada.uid, "ada's machine")),
    "/v1/api-tokens api_token": own(token["token_id"]),
    "/payment/usage api_token": own(token["token_id"]),
    "/payment/usage token_id": own(token["token_id"]),
    "/payment/invoices invoice_id": own(await invoiceOf(ada)),
    "secret api_token": { own: String(token["token"]), unknown: unknownKey },
    "/v1/me request_id": own(pool["id"]),
    "/v1/scoped-jwt jwtoken": own(jwt["token"]),
    "/v1/voices voice_id": own(await voiceOf(ada)),
    "/v1/webhooks webhook_id": own(await callOf(ada)),
    "/v1/files file_id": own(file),
    "/v1/batches batch_id": own(await batchOf(ada, file)),
    "/v1/messages/batches batch_id": own(await batchOf(ada, file, "messages")),
    "/v1/responses response_id": own(response["id"]),
    "/v1/agent instance_id": own(agent.id),
    "/v1/agent backup_id": own(agent.backup),
    "/models model_name": own(`${ada.name}/secret-model`),
  };
  marks = [
    ada.uid,
    ada.key,
    ada.name,
    "ada's laptop",
    "ada's second",
    "ada's program",
    "adas-rule",
    "ada's machine",
    "ada's agent",
    "ada's voice",
    "ada's requests",
    ...Object.values(things).map((thing) => thing.own),
  ].filter((mark) => mark !== "");
});

/** Filled in where validation would else answer before anybody looks for the thing. */
const bodies: Record<string, unknown> = {
  "PATCH /v1/containers/{container_id}": { name: "taken over" },
  "PUT /deploy/{deploy_id}": { settings: { max_instances: 1 } },
  "POST /v1/voices/{voice_id}/edit": { name: "bob's" },
  "PATCH /v1/agent/{instance_id}": { name: "bob's" },
  "POST /models/{model_name}/meta": { description: "bob's" },
  "POST /models/{model_name}/publicity": { public: true },
  "PATCH /v1/members/{id}": { role: "viewer" },
  "PATCH /v1/projects/{project_id}": { monthly_limit: 1 },
  "PATCH /v1/api-tokens/{api_token}": { allowed_ips: ["10.0.0.1"] },
  "PATCH /v1/api-tokens/id/{api_token}": { allowed_ips: ["10.0.0.1"] },
};

const thingOf = (path: string, name: string): Thing | undefined =>
  Object.entries(things).find(([key]) => {
    const [prefix = "", parameter] = key.split(" ");
    return parameter === name && path.startsWith(prefix);
  })?.[1];

interface Route {
  readonly method: string;
  readonly path: string;
  readonly names: readonly { readonly name: string; readonly in: string }[];
}

/** Names of models that are asked, of the ways to ask them, cursors in their list, and months: not somebody's. */
const everybodys = ["model_name", "variantKey", "after_id", "before_id", "month"];
/** Where a voice of a model may be named as well: what it answers is the model's. */
const speaks = "/v1/text-to-speech/";
const isSomebodys = (path: string, name: string): boolean =>
  path.startsWith("/models/") ? name === "model_name" : !everybodys.includes(name) && !path.startsWith(speaks);

/** Between accounts they are proven in test/security/sign-in.test.ts: a factor is added in a browser session only. */
const factorPath = "/v1/me/factors/{id}";
/** In test/integration/accounts/sign-in.test.ts: a session begins in a browser only. */
const sessionPath = "/v1/me/sessions/{id}";
/** In test/security/identity-providers.test.ts: an identity is linked in a browser only. */
const identityPath = "/v1/me/identities/{id}";

/** Routes of an account that name something: the operator's and the signed public ones aside. */
function routesThatName(): Route[] {
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations)
      .filter(([, operation]) => (operation.security ?? []).length > 0 && !path.startsWith("/v1/admin/"))
      .filter(() => ![factorPath, sessionPath, identityPath].includes(path))
      .map(([method, operation]) => ({
        method: method.toUpperCase(),
        path,
        names: (operation.parameters ?? []).filter(
          (one) =>
            isSomebodys(path, one.name) &&
            (one.in === "path" || (one.in === "query" && /(^|_)id$|token/.test(one.name))),
        ),
      }))
      .filter(({ names }) => names.length > 0),
  );
}

function fill(route: Route, which: keyof Thing, secret: boolean): string {
  let path = route.path.replace("{variantKey}", "default");
  const query = new URLSearchParams();
  for (const { name, in: where } of route.names) {
    const thing = (secret ? things[`secret ${name}`] : undefined) ?? thingOf(route.path, name);
    if (!thing || thing.own === "")
      throw new Error(`${route.method} ${route.path}: this test makes nothing for ${name}; add it to \`things\``);
    if (where === "path") path = path.replace(`{${name}}`, encodeURIComponent(thing[which]));
    else query.set(name, thing[which]);
  }
  // What else the route requires.
  if (route.path.startsWith("/payment/usage")) query.set("from", "current");
  if (route.method === "DELETE" && route.path.startsWith("/models/")) query.set("version", "ALL");
  return query.size > 0 ? `${path}?${query}` : path;
}

/** An answer may say what it was asked for. */
const unnamed = (text: string): string =>
  Object.values(things).reduce((rest, { own, unknown }) => rest.replaceAll(own, "it").replaceAll(unknown, "it"), text);

describe("another account's caller", () => {
  it("is told of a thing that is not his what he is told of none, byte for byte, on every route that names one", async () => {
    const routes = routesThatName();
    expect(routes.length).toBeGreaterThan(10);
    const wrong: string[] = [];
    for (const route of routes) {
      const hasSecret = route.names.some(({ name }) => things[`secret ${name}`]);
      for (const secret of hasSecret ? [false, true] : [false]) {
        const body = bodies[`${route.method} ${route.path}`] ?? (/^P/.test(route.method) ? {} : undefined);
        const foreign = await as(bob, route.method, fill(route, "own", secret), body);
        const unknown = await as(bob, route.method, fill(route, "unknown", secret), body);
        const what = `${route.method} ${route.path}${secret ? " (by secret)" : ""}`;
        if (foreign.status !== unknown.status || unnamed(foreign.text) !== unnamed(unknown.text))
          wrong.push(`${what}: ${foreign.status} ${foreign.text} but ${unknown.status} ${unknown.text}`);
        // Any other refusal came before the thing was looked for, and would prove nothing.
        else if (foreign.status !== 404) wrong.push(`${what}: ${foreign.status} ${foreign.text} instead of 404`);
      }
    }
    expect(wrong).toEqual([]);
  });

  it("left all of them as they were", async () => {
    for (const route of routesThatName().filter(({ method }) => method === "GET")) {
      const answer = await as(ada, "GET", fill(route, "own", false));
      expect([route.path, answer.status]).toEqual([route.path, 200]);
    }
  });

  it("finds nothing of others in any list", async () => {
    const lists = Object.entries(paths)
      // Bob's own rejected requests name what he asked for above.
      .filter(([path]) => path !== "/v1/rejected-requests")
      .filter(([path, { get }]) => get && !path.includes("{") && !path.startsWith("/v1/admin/"))
      .map(([path]) => path);
    expect(lists.length).toBeGreaterThan(8);
    const leaks: string[] = [];
    for (const path of lists) {
      const { text } = await as(bob, "GET", path.startsWith("/payment/usage") ? `${path}?from=current` : path);
      for (const mark of marks) if (text.includes(mark)) leaks.push(`${path} shows ${mark}`);
    }
    expect(leaks).toEqual([]);
  });
});
