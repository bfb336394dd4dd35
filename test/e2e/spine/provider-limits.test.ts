// What the provider of an external server is paid, and its limits, beside the limits of the customer.
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { type FakeEngine, startFakeEngine } from "../../fakes/engine.ts";
import { type Stack, startStack } from "../../fakes/processes.ts";
import { query } from "./database.ts";

const [bounded, unbounded] = ["provider/bounded", "provider/unbounded"] as const;
/** USD per million generated tokens: 4 tokens cost 40,000 nano-USD at the provider, 80,000 here. */
const [cost, pricing] = [{ output: 10 }, { input: 0, cached_input: 0, output: 20 }];
const tokens = 4;
const requestCost = (tokens * 10) / 1e6;
const engines: FakeEngine[] = [];
const ids: Record<string, string> = {};
let stack: Stack;

beforeAll(async () => {
  stack = await startStack();
  for (const name of [bounded, unbounded]) {
    const engine = await startFakeEngine({ models: [name], tokens });
    engines.push(engine);
    const made = await stack.call("POST", "/v1/admin/external", { name, url: engine.origin, max_batch_size: 256 });
    ids[name] = made.body.deploy_id;
    await vi.waitFor(
      async () => expect((await stack.call("GET", `/deploy/${made.body.deploy_id}`)).body.status).toBe("deployed"),
      { timeout: 60_000, interval: 100 },
    );
    await stack.call("PUT", `/v1/admin/models/${name}`, { deploy_id: made.body.deploy_id, description: "", pricing });
  }
});
afterAll(async () => {
  await stack?.stop();
  await Promise.all(engines.map((engine) => engine.close()));
});

const ask = (model: string, key?: string) =>
  stack.call(
    "POST",
    "/v1/chat/completions",
    { model, messages: [{ role: "user", content: "hi" }], max_tokens: tokens },
    key === undefined ? {} : { authorization: `Bearer ${key}` },
  );

const limit = (name: string, terms: object) =>
  stack.call("PUT", `/v1/admin/external/${ids[name]}`, { costs: cost, ...terms });

async function serverOf(name: string) {
  const { body } = await stack.call("GET", "/v1/admin/external");
  return body.servers.find((one: { model_name: string }) => one.model_name === name);
}

const spentOf = (name: string) =>
  vi.waitFor(
    async () => {
      const open = await query<{ leased: string }>(
        stack.databaseUrl,
        "select sum(leased)::text as leased from budget where scope like 'provider%'",
      );
      // Nothing is reserved any more: every request is in the sums.
      expect(open[0]?.leased).toBe("0");
      return await serverOf(name);
    },
    { timeout: 60_000, interval: 200 },
  );

it("pays a provider at most its monthly limit with 200 requests at once, to the token", async () => {
  expect((await limit(bounded, { monthly_limit: requestCost * 100 })).body).toMatchObject({
    month: { limit: requestCost * 100, spent: 0 },
  });
  const replies = await Promise.all(Array.from({ length: 200 }, () => ask(bounded)));
  const refused = replies.filter(({ status }) => status !== 200);
  expect(refused.map(({ status, body }) => [status, body.error.code])).toEqual(
    Array.from({ length: 100 }, () => [503, "provider_limit_reached"]),
  );
  const { month, day } = await spentOf(bounded);
  expect(month).toEqual({ limit: requestCost * 100, spent: requestCost * 100, left: 0 });
  expect(day).toEqual({ limit: null, spent: requestCost * 100, left: null });
});

it("serves by the next model of an alias once a provider is at its limit", async () => {
  await stack.call("PUT", "/v1/model-aliases/prod", {
    targets: [{ model: bounded, weight: 1 }],
    fallbacks: [unbounded],
  });
  const served = () => engines.map(({ log }) => log.filter(({ path }) => path === "/v1/chat/completions").length);
  const before = served();
  const statuses = await Promise.all(Array.from({ length: 50 }, () => ask("prod").then(({ status }) => status)));
  expect(statuses.filter((status) => status !== 200)).toEqual([]);
  expect(served()).toEqual([before[0], (before[1] ?? 0) + 50]);
});

it("serves again when the limit is raised, and stops at a limit per day", async () => {
  await limit(bounded, { monthly_limit: requestCost * 1000, daily_limit: requestCost * 103 });
  const statuses: number[] = [];
  for (let n = 0; n < 5; n++) statuses.push((await ask(bounded)).status);
  expect(statuses).toEqual([200, 200, 200, 503, 503]);
  expect((await spentOf(bounded)).day).toMatchObject({ spent: requestCost * 103, left: 0 });
});

it("holds the limits of customer and provider at once", async () => {
  await limit(unbounded, { daily_limit: 1 });
  const made = await stack.call("POST", "/v1/api-tokens", { name: "limited" });
  const { token: key, token_id } = made.body;
  const limited = await stack.call("POST", "/payment/key-limits", { token_id, limit: (tokens * 20 * 30) / 1e6 });
  expect(limited.status, JSON.stringify([made.body, limited.body])).toBe(200);
  const replies = await Promise.all(Array.from({ length: 100 }, () => ask(unbounded, key)));
  expect(replies.filter(({ status }) => status === 200)).toHaveLength(30);
  expect(replies.filter(({ status }) => status === 402)).toHaveLength(70);
  const { day } = await spentOf(unbounded);
  // 50 of the alias ran before its provider had a price.
  expect(day.spent).toBeCloseTo(requestCost * 30, 9);
});

it("meets both limits exactly while every request overflows", async () => {
  const local = await startFakeEngine({ models: ["local/gone"], tokens });
  const made = await stack.call("POST", "/v1/admin/external", { name: "local/gone", url: local.origin });
  const deployId = made.body.deploy_id;
  await vi.waitFor(async () => expect((await stack.call("GET", `/deploy/${deployId}`)).body.status).toBe("deployed"), {
    timeout: 60_000,
    interval: 100,
  });
  await stack.call("PUT", "/v1/admin/models/local/gone", { deploy_id: deployId, description: "", pricing });
  await local.close();
  const before = (await spentOf(bounded)).day.spent;
  const limited = await limit(bounded, { daily_limit: before + requestCost * 40 });
  expect(limited.body.day.left).toBeCloseTo(requestCost * 40, 9);
  await limit(unbounded, {});
  const other = (await spentOf(unbounded)).day.spent;
  await stack.call("PUT", "/v1/model-aliases/overflow", {
    targets: [{ model: "local/gone", weight: 1 }],
    fallbacks: [bounded, unbounded],
  });
  const { token, token_id } = (await stack.call("POST", "/v1/api-tokens", { name: "overflow" })).body;
  await stack.call("POST", "/payment/key-limits", { token_id, limit: (tokens * 20 * 100) / 1e6 });
  const replies = await Promise.all(Array.from({ length: 200 }, () => ask("overflow", token)));
  const counts = Object.groupBy(replies, ({ status }) => String(status));
  expect(Object.fromEntries(Object.entries(counts).map(([status, some]) => [status, some?.length]))).toEqual({
    200: 100,
    402: 100,
  });
  expect((await spentOf(bounded)).day.spent - before).toBeCloseTo(requestCost * 40, 9);
  // A provider without a limit has no reservation that shows when all its records have been settled.
  await vi.waitFor(async () => expect((await serverOf(unbounded)).day.spent - other).toBeCloseTo(requestCost * 60, 9), {
    timeout: 60_000,
    interval: 200,
  });
});
