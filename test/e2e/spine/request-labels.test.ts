// A client's own x-request-id is a label: never a key of money.
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { type FakeEngine, startFakeEngine } from "../../fakes/engine.ts";
import { type Stack, startStack } from "../../fakes/processes.ts";
import { ledgerFacts, query, usageRows } from "./database.ts";

let engine: FakeEngine;
let stack: Stack;
const model = "admin/outside";
const count = 1_000;

beforeAll(async () => {
  engine = await startFakeEngine({ models: [model] });
  stack = await startStack();
  const made = await stack.call("POST", "/v1/admin/external", { name: model, url: engine.origin, max_batch_size: 16 });
  expect(made.status, JSON.stringify(made.body)).toBe(200);
  await vi.waitFor(
    async () => expect((await stack.call("GET", `/deploy/${made.body.deploy_id}`)).body.status).toBe("deployed"),
    { timeout: 60_000, interval: 200 },
  );
  const pricing = { input: 1, cached_input: 0.5, output: 2 };
  await stack.call("PUT", `/v1/admin/models/${model}`, { deploy_id: made.body.deploy_id, description: "", pricing });
});
afterAll(async () => {
  await stack?.stop();
  await engine?.close();
});

it(`makes ${count} usage rows of as many requests with one and the same x-request-id`, async () => {
  const ids = new Set<string | null>();
  const headers = {
    authorization: `Bearer ${stack.apiKey}`,
    "content-type": "application/json",
    "x-request-id": "the-same-for-all",
  };
  const body = JSON.stringify({ model, messages: [{ role: "user", content: "hi" }], max_tokens: 8 });
  let left = count;
  await Promise.all(
    Array.from({ length: 16 }, async () => {
      while (left-- > 0) {
        const answer = await fetch(`${stack.url}/v1/compat/chat/completions`, { method: "POST", headers, body });
        expect(answer.status).toBe(200);
        expect(answer.headers.get("x-request-id")).toBe("the-same-for-all");
        ids.add(answer.headers.get("x-stoker-request-id"));
        await answer.arrayBuffer();
      }
    }),
  );
  expect(ids.size).toBe(count);
  await vi.waitFor(async () => expect(await usageRows(stack.databaseUrl)).toHaveLength(count), {
    timeout: 60_000,
    interval: 500,
  });
  const [charged] = await query<{ n: number }>(
    stack.databaseUrl,
    "select count(*)::int as n from usage where charge > 0",
  );
  expect(charged?.n).toBe(count);
  expect(await ledgerFacts(stack.databaseUrl)).toEqual({ sum: 0, overspent: 0, capturesPerRequest: 1 });
});
