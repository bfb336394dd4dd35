// A few of everything that a small installation can have, made through the API.
import type { Stack } from "../../fakes/processes.ts";

export const password = "correct horse battery";
export const chatModel = "fake/chat";
export const speechModel = "fake/speech";

export interface Customer {
  readonly uid: string;
  readonly email: string;
  readonly key: string;
}

export interface PageData {
  readonly customer: Customer;
  /** Of the customer. */
  readonly requestId: string;
  readonly deployId: string;
}

type Call = (method: string, path: string, body?: unknown) => Promise<Record<string, never>>;

/** Calls as the owner of the key, by default the operator; throws on a refusal. */
const caller =
  (stack: Stack, key = stack.apiKey): Call =>
  async (method, path, body) => {
    const headers = { authorization: `Bearer ${key}`, "idempotency-key": crypto.randomUUID() };
    const answer = await stack.call(method, path, body, headers);
    if (answer.status !== 200) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  };

/** Password of the operator, so that the browser can sign in. */
export async function setPassword(stack: Stack): Promise<string> {
  const call = caller(stack);
  await call("POST", "/v1/me/password", { password });
  return (await call("GET", "/v1/me"))["email"] as unknown as string;
}

export async function fillServer(stack: Stack, engine: string): Promise<PageData> {
  const operator = caller(stack);
  await offer(operator, engine, chatModel, "text-generation", { input: 1, cached_input: 0.25, output: 2 });
  await offer(operator, engine, speechModel, "text-to-speech", { input: 4, output: 0 });
  const customer = await createCustomer(stack, operator);
  const call = caller(stack, customer.key);
  await accountRecords(call);
  const deployId = (
    await call("POST", "/deploy/llm", {
      model_name: "ada/support-assistant",
      gpu: "L4-24GB",
      num_gpus: 1,
      max_batch_size: 8,
      hf: { repo: "example/model" },
      settings: { min_instances: 1, max_instances: 2 },
    })
  )["deploy_id"] as unknown as string;
  await operatorRecords(operator, customer);
  const requestId = await requests(stack, customer);
  await assets(stack, customer, call);
  return { customer, requestId, deployId };
}

async function offer(call: Call, url: string, name: string, task: string, pricing: object): Promise<void> {
  const { deploy_id } = await call("POST", "/v1/admin/external", { name, task, url });
  await call("PUT", `/v1/admin/models/${name}`, { deploy_id, pricing, description: "For tests of pages" });
}

async function createCustomer(stack: Stack, operator: Call): Promise<Customer> {
  const email = "ada@example.com";
  const made = await operator("POST", "/v1/admin/accounts", { email, display_name: "ada-workshop", credit_usd: 40 });
  const key = made["api_key"] as unknown as string;
  await caller(stack, key)("POST", "/v1/me/password", { password });
  return { uid: made["uid"] as unknown as string, email, key };
}

async function accountRecords(call: Call): Promise<void> {
  await call("POST", "/v1/api-tokens", { name: "ci", allowed_models: [chatModel], requests_per_minute: 60 });
  await call("POST", "/v1/api-tokens", { name: "reports", role: "read" });
  await call("POST", "/payment/config", {
    limit: 200,
    invoice_address: "Ada's workshop\n1 Analytical Street\nLondon W1",
  });
  const targets = [
    { model: chatModel, weight: 3 },
    { model: speechModel, weight: 1 },
  ];
  await call("PUT", "/v1/model-aliases/prod", { targets });
  await call("POST", "/v1/me/rate_limit/request", { rate_limit: 500, reason: "The product launches on Monday" });
  await call("POST", "/v1/me/gpu_limit/request", { gpu_type: "L4-24GB", requested_limit: 4, reason: "Peak hours" });
}

async function operatorRecords(call: Call, { uid }: Customer): Promise<void> {
  const note = "Agreed by phone";
  await call("POST", "/v1/admin/prices", { kind: "gpu", subject: "L4-24GB", rates: { hour: 0.8 }, note });
  await call("POST", "/v1/admin/discounts", { name: "First year", percent: 10, uid, note });
  await call("POST", "/v1/admin/nodes/tokens", { pool: "lab", ttl_seconds: 3600 });
}

/** Returns the id of the last one. */
async function requests(stack: Stack, { key }: Customer): Promise<string> {
  const chat = { model: chatModel, messages: [{ role: "user", content: "Hello" }], max_tokens: 16 };
  const send = (body: object, authorization = key) =>
    stack.call("POST", "/v1/chat/completions", body, { authorization: `Bearer ${authorization}` });
  for (let tries = 0; (await send(chat)).status !== 200; tries += 1)
    if (tries > 100) throw new Error("the engine does not become ready");
  for (const user of ["ann", "bob", "ann"]) await send({ ...chat, user });
  await send(chat, stack.apiKey);
  await send({ ...chat, model: "fake/unknown" });
  await send({ ...chat, max_tokens: 100_000_000 });
  const last = await fetch(`${stack.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(chat),
  });
  return last.headers.get("x-request-id") ?? "";
}

async function assets(stack: Stack, { key }: Customer, call: Call): Promise<void> {
  const upload = async (path: string, fields: Readonly<Record<string, string>>, file: string, blob: Blob) => {
    const form = new FormData();
    for (const [name, value] of Object.entries(fields)) form.set(name, value);
    form.set(file, blob, "request.jsonl");
    const headers = { authorization: `Bearer ${key}` };
    const answer = await fetch(`${stack.url}${path}`, { method: "POST", headers, body: form });
    if (!answer.ok) throw new Error(`${path}: ${await answer.text()}`);
    return (await answer.json()) as { readonly id: string };
  };
  const body = { model: chatModel, messages: [{ role: "user", content: "Hello" }] };
  const line = JSON.stringify({ custom_id: "1", method: "POST", url: "/v1/chat/completions", body });
  const { id } = await upload("/v1/files", { purpose: "batch" }, "file", new Blob([line]));
  await call("POST", "/v1/batches", {
    input_file_id: id,
    endpoint: "/v1/chat/completions",
    completion_window: "24h",
  });
}
