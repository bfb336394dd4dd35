// Servers that Stoker does not start and that require a key, behind an alias.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { type FakeEngine, startFakeEngine } from "../../fakes/engine.ts";
import { type Stack, startStack } from "../../fakes/processes.ts";
import { query } from "./database.ts";

const [first, second] = ["upstream/first", "upstream/second"] as const;
const keys = { [first]: "sk-first-canary", [second]: "sk-second-canary" };
const engines: FakeEngine[] = [];
let stack: Stack;

beforeAll(async () => {
  stack = await startStack();
  for (const name of [first, second]) {
    const engine = await startFakeEngine({ models: [name], apiKey: keys[name] });
    engines.push(engine);
    const server = { name, url: engine.origin, api_key: keys[name], max_batch_size: 16 };
    const made = await stack.call("POST", "/v1/admin/external", server);
    expect(made.status, JSON.stringify(made.body)).toBe(200);
    expect(JSON.stringify(made.body)).not.toContain(keys[name]);
    await vi.waitFor(
      async () => expect((await stack.call("GET", `/deploy/${made.body.deploy_id}`)).body.status).toBe("deployed"),
      { timeout: 60_000, interval: 100 },
    );
    const pricing = { input: 1, cached_input: 1, output: 1 };
    await stack.call("PUT", `/v1/admin/models/${name}`, { deploy_id: made.body.deploy_id, description: "", pricing });
  }
});
afterAll(async () => {
  await stack?.stop();
  await Promise.all(engines.map((engine) => engine.close()));
});

const ask = (model: string) =>
  stack.call("POST", "/v1/chat/completions", {
    model,
    messages: [{ role: "user", content: "hi" }],
    max_tokens: 4,
  });

it("serves requests with the key, and keeps it out of replies, database and logs", async () => {
  expect((await ask(first)).status).toBe(200);
  const rows = await query<{ text: string }>(
    stack.databaseUrl,
    "select row_to_json(d)::text as text from deployment d",
  );
  expect(rows).toHaveLength(2);
  const logs = [...stack.controlPlanes, ...stack.agents].map((one) => one.log()).join("\n");
  expect(logs).toContain("request");
  for (const key of Object.values(keys)) expect([...rows.map(({ text }) => text), logs].join("\n")).not.toContain(key);
});

it("is not deployed with a wrong key", async () => {
  const wrong = { name: "upstream/wrong", url: engines[0]?.origin, api_key: "wrong", max_batch_size: 16 };
  const { body } = await stack.call("POST", "/v1/admin/external", { ...wrong, served_name: first });
  await vi.waitFor(
    async () => {
      const { status, progress } = (await stack.call("GET", `/deploy/${body.deploy_id}`)).body;
      expect([status, JSON.stringify(progress)]).toEqual(["deploying", expect.stringContaining("401")]);
    },
    { timeout: 60_000, interval: 100 },
  );
});

it("moves every request of an alias to the other server when one is gone", async () => {
  const alias = { targets: [{ model: first, weight: 1 }], fallbacks: [second] };
  expect((await stack.call("PUT", "/v1/model-aliases/prod", alias)).status).toBe(200);
  const served = () => engines.map(({ log }) => log.filter(({ path }) => path === "/v1/chat/completions").length);
  const [before = 0, other = 0] = served();
  for (let n = 0; n < 20; n++) expect((await ask("prod")).status).toBe(200);
  expect(served()).toEqual([before + 20, other]);
  await engines[0]?.close();
  const statuses = await Promise.all(Array.from({ length: 100 }, () => ask("prod").then(({ status }) => status)));
  expect(statuses.filter((status) => status !== 200)).toEqual([]);
  expect(served()).toEqual([before + 20, other + 100]);
});

it("is hidden where a server repeats it in an error", async () => {
  const key = keys[second];
  engines[1]?.behave({ status: 400, message: `Incorrect API key provided: ${key}.` });
  const refused = await ask(second);
  expect([refused.status, refused.body.error.message]).toEqual([400, "Incorrect API key provided: [secret]."]);
  engines[1]?.behave({ status: 401, message: `Incorrect API key provided: ${key}.` });
  expect(JSON.stringify((await ask(second)).body)).not.toContain(key);
  const logs = () => [...stack.controlPlanes, ...stack.agents].map((one) => one.log()).join("\n");
  await vi.waitFor(() => expect(logs()).toContain("401: Incorrect API key provided: [secret]."), 10_000);
  expect(logs()).not.toContain(key);
});

it("is sealed in the agent's folder", () => {
  const folder = stack.folder;
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((file) => file.isFile());
  expect(files.length).toBeGreaterThan(2);
  for (const { parentPath, name } of files) {
    const bytes = readFileSync(join(parentPath, name));
    for (const key of Object.values(keys)) expect(bytes.includes(key), name).toBe(false);
  }
});
