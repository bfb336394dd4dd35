// P25: secrets in every input of real processes, then a search for them in all that is written down: logs, every table of
// the database, metrics, and error bodies.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { query } from "../e2e/spine/database.ts";
import { type ExternalStack, startExternalStack } from "../fakes/external-stack.ts";

let world: ExternalStack;
/** What was given or made, by what it is. */
const canaries = new Map<string, string>();
/** Every error body the stack answered with. */
const errorBodies: string[] = [];

beforeAll(async () => {
  world = await startExternalStack({ engine: { tokens: 4 } });
  await giveSecrets();
});
afterAll(() => world?.stop());

const canary = (what: string, prefix = ""): string => {
  const value = `${prefix}cAnArY${Buffer.from(what).toString("hex")}x${"0".repeat(8)}`;
  canaries.set(what, value);
  return value;
};

async function send(path: string, headers: Record<string, string>, body?: unknown, method?: string): Promise<string> {
  const answer = await fetch(`${world.stack.url}${path}`, {
    method: method ?? (body === undefined ? "GET" : "POST"),
    headers: { ...headers, ...(body === undefined ? {} : { "content-type": "application/json" }) },
    ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    redirect: "manual",
    signal: AbortSignal.timeout(30_000),
  });
  const text = await answer.text();
  if (answer.status >= 400) errorBodies.push(text);
  return text;
}

async function giveSecrets(): Promise<void> {
  const { stack, model } = world;
  const admin = { authorization: `Bearer ${stack.apiKey}` };
  canaries.set("the admin's key", stack.apiKey);
  const made = JSON.parse(
    await send("/v1/admin/accounts", admin, { email: "canary@example.com", display_name: "canary", credit_usd: 1 }),
  );
  canaries.set("an account's key", made.api_key);
  const own = { authorization: `Bearer ${made.api_key}` };
  const second = JSON.parse(await send("/v1/api-tokens", own, { name: "second" }));
  canaries.set("a second key", second.token);
  const jwt = JSON.parse(await send("/v1/scoped-jwt", own, { api_key_name: "auto", expires_delta: 600 }))
    .token as string;
  canaries.set("a scoped token's signature", jwt.split(".")[2] ?? "");

  // Credentials that are wrong, in every place one may stand.
  const chat = { model, messages: [{ role: "user", content: canary("a prompt") }], max_tokens: 2 };
  for (const [name, value] of [
    ["authorization", `Bearer ${canary("a wrong bearer", "stk_")}`],
    ["xi-api-key", canary("a wrong xi-api-key", "stk_")],
    ["x-api-key", canary("a wrong x-api-key", "stk_")],
    ["authorization", `Bearer jwt:${canary("a wrong token", "eyJ")}.e30.x`],
    ["cookie", `session=${canary("a wrong cookie")}`],
  ] as const) {
    await send("/v1/me", { [name]: value });
    await send("/v1/compat/chat/completions", { [name]: value }, chat);
  }
  // Secrets in paths and query strings.
  await send(`/v1/api-tokens/${second.token}`, own);
  await send(`/v1/api-tokens/${canary("an unknown key in a path", "stk_")}`, own);
  await send(`/payment/usage/${second.token}?from=current`, own);
  await send(`/v1/scoped-jwt?jwtoken=${encodeURIComponent(jwt)}`, own);
  await send(`/v1/scoped-jwt?jwtoken=${canary("an unknown token in a query", "jwt:")}`, own);
  await send(`/v1/me?api_key=${canary("a key in a query", "stk_")}`, own);
  await send(`/nowhere/${canary("a secret in an unknown path", "stk_")}?token=${canary("one in its query")}`, own);

  // Passwords and sign-in.
  const password = canary("a password");
  await send("/v1/me/password", own, { password, new_password: password });
  await send("/v1/auth/sign-in", {}, { email: "canary@example.com", password });
  await send("/v1/auth/sign-in", {}, { email: "canary@example.com", password: canary("a wrong password") });
  await send(
    "/v1/auth/sign-up",
    {},
    { email: "x@example.com", password: canary("a refused password"), display_name: "x" },
  );

  // Hub tokens, prompts, and bodies that cannot be read.
  await send("/deploy/llm", own, {
    model_name: "canary/model",
    gpu: "other",
    hf: { repo: "canary/none", token: canary("a hub token", "hf_") },
  });
  await send("/v1/compat/chat/completions", own, chat);
  await send(
    "/v1/completions",
    { authorization: `Bearer ${jwt}` },
    { model, prompt: canary("a text prompt"), max_tokens: 2 },
  );
  const stored = { model, store: true, instructions: canary("stored instructions"), input: canary("a stored input") };
  await send("/v1/responses", own, { ...stored, metadata: { note: canary("stored metadata") } });
  await send("/v1/completions", own, { model, prompt: canary("a refused prompt"), max_tokens: "many" });
  await send("/v1/completions", own, `{"model": "${canary("a broken body")}`);
  // Nobody has said that receivers may be inside: none of these is kept, let alone called.
  for (const host of ["http://127.0.0.1:9", "https://[::ffff:127.0.0.1]", "https://10.0.0.1"]) {
    const webhook = `${host}/hook?token=${canary(`the query of a refused webhook at ${host}`)}`;
    expect(await send(`/v1/inference/${model}`, own, { input: "hi", max_new_tokens: 2, webhook })).toContain(
      "webhook_refused",
    );
  }
  await send("/v1/me", own, { first_name: 7, password: canary("a field nobody asked for") }, "PATCH");
  for (const [what, value] of [["admin secret", "agent.secret"]] as const)
    canaries.set(what, readFileSync(join(stack.folder, "secrets", value), "utf8").trim());
  expect(canaries.size).toBeGreaterThan(20);

  // What is logged and settled in the background has been.
  await vi.waitFor(
    async () => {
      const rows = await query(stack.databaseUrl, "select 1 from usage where account_id = $1", [made.uid]);
      expect(rows.length).toBeGreaterThanOrEqual(2);
    },
    { timeout: 30_000, interval: 100 },
  );
}

/** Also in the forms a secret takes when it is written as part of something else. */
function foundIn(text: string): string[] {
  return [...canaries].flatMap(([what, value]) => {
    const forms = [
      value,
      encodeURIComponent(value),
      Buffer.from(value).toString("base64").replace(/=+$/, ""),
      Buffer.from(value).toString("hex"),
    ];
    return forms.some((form) => text.includes(form)) ? [what] : [];
  });
}

/** Every row of every table as text, as a dump would have it. */
async function dump(): Promise<string> {
  const tables = await query<{ name: string }>(
    world.stack.databaseUrl,
    `select format('%I.%I', schemaname, tablename) as name from pg_tables
     where schemaname not in ('pg_catalog', 'information_schema')`,
  );
  expect(tables.length).toBeGreaterThan(20);
  const texts = await Promise.all(
    tables.map(async ({ name }) => {
      const rows = await query<{ line: string }>(world.stack.databaseUrl, `select t::text as line from ${name} t`);
      return rows.map(({ line }) => line).join("\n");
    }),
  );
  return texts.join("\n");
}

it("are found by the search wherever they stand, also encoded", () => {
  const key = canaries.get("an account's key") ?? "";
  expect(foundIn(`key=${key};`)).toEqual(["an account's key"]);
  expect(foundIn(`\\x00${Buffer.from(key).toString("hex")}`)).toEqual(["an account's key"]);
});

it("the logs of all processes hold none of them", async () => {
  const { folder } = world.stack;
  const logs = readdirSync(folder).filter((file) => file.endsWith(".log"));
  expect(logs.length).toBeGreaterThanOrEqual(2);
  const read = () => logs.map((file) => readFileSync(join(folder, file), "utf8")).join("\n");
  // The search sees what is there: each request left its line, written a moment after its answer.
  await expect.poll(read).toContain("/v1/scoped-jwt");
  await expect.poll(read).toContain("/v1/api-tokens/:api_token");
  expect(foundIn(read())).toEqual([]);
});

it("the database holds none of them in the clear", async () => {
  const text = await dump();
  expect(text).toContain("canary@example.com");
  expect(foundIn(text)).toEqual([]);
});

it("the metrics of control plane and agent hold none of them", async () => {
  const { folder } = world.stack;
  const { admin } = JSON.parse(readFileSync(join(folder, "control-plane.json"), "utf8"));
  const page = await (await fetch(`http://127.0.0.1:${admin}/metrics`)).text();
  expect(page).toContain("stoker_");
  expect(foundIn(page)).toEqual([]);
});

it("no error body says one back", () => {
  expect(errorBodies.length).toBeGreaterThan(15);
  expect(foundIn(errorBodies.join("\n"))).toEqual([]);
});
