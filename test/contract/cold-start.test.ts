// Requests that wait for a starting model, through the real edge.
import { afterEach, expect, it, vi } from "vitest";
import { InvalidApiKey } from "../../control-plane/accounts/errors.ts";
import type { AnswerSink } from "../../control-plane/inference/answer-sink.ts";
import { coldStartsFull } from "../../control-plane/inference/errors.ts";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { ada } from "../fakes/ports.ts";

const body = { model: "org/model", messages: [{ role: "user", content: "hi" }] };
let edge: Edge | undefined;
afterEach(() => edge?.close());

async function edgeThat(wait: (sink: AnswerSink) => Promise<"ready" | "gone">, again?: () => never, agents = 0) {
  const waited: number[] = [];
  const woken: string[] = [];
  edge = await startEdge({
    agents,
    change: (deps) => ({
      ...deps,
      spine: {
        ...deps.spine,
        coldStarts: {
          wait: (_model, _isStream, sink, { bodyBytes }) => {
            waited.push(bodyBytes);
            return wait(sink);
          },
          wake: ({ name }) => void woken.push(name),
          close() {},
        },
        ...(again ? { standing: { now: () => 7, again } } : {}),
      },
    }),
  });
  return { edge, waited, woken };
}

it("of a key that was revoked meanwhile get 401, not an answer", async () => {
  const { edge, waited } = await edgeThat(
    async () => "ready",
    () => {
      throw new InvalidApiKey();
    },
  );
  const response = await edge.post("/v1/compat/chat/completions", body);
  expect(response.status).toBe(401);
  expect(waited).toEqual([JSON.stringify(body).length]);
});

it("keep their place within the account's limit until they are served or refused", async () => {
  const wait = Promise.withResolvers<"ready">();
  const { edge, waited } = await edgeThat(() => wait.promise);
  edge.rates.setOwnLimits(new Map([[ada.account, { concurrent: 1, tokensPerMinute: 1_000, weight: 1 }]]));
  const first = edge.post("/v1/compat/chat/completions", body);
  await vi.waitFor(() => expect(waited).toHaveLength(1), { timeout: 20_000 });
  expect((await edge.post("/v1/compat/chat/completions", body)).status).toBe(429);
  expect(waited).toHaveLength(1);
  wait.reject(coldStartsFull("org/model", 42));
  expect((await first).status).toBe(503);
  expect((await edge.post("/v1/compat/chat/completions", body)).status).toBe(503);
  expect(waited).toHaveLength(2);
});

it("beyond what memory allows get 503, when to come again, and a word of their own", async () => {
  const { edge } = await edgeThat(() => Promise.reject(coldStartsFull("org/model", 42)));
  const response = await edge.post("/v1/compat/chat/completions", body);
  expect(response.status).toBe(503);
  expect(response.headers.get("retry-after")).toBe("42");
  expect(await response.text()).toContain("cold_start_full");
});

it("pay nothing for it: nothing of theirs is held meanwhile, and what is billed is what the engine did", async () => {
  const wait = Promise.withResolvers<"ready">();
  const { edge, waited } = await edgeThat(() => wait.promise, undefined, 1);
  const { budgets, routes } = edge;
  const funds = budgets.available;
  const [route] = routes.routes.splice(0);
  const answer = edge.post("/v1/compat/chat/completions", body);
  await vi.waitFor(() => expect(waited).toHaveLength(1), { timeout: 20_000 });
  expect(budgets.holds).not.toEqual([]);
  for (const { end } of budgets.holds) expect(end).toEqual({ how: "released" });
  expect(budgets.available).toBe(funds);
  routes.routes.push(...(route ? [route] : []));
  wait.resolve("ready");
  expect((await answer).status).toBe(200);
  const settled = () => budgets.holds.flatMap(({ end }) => (end?.how === "settled" ? [end.cost] : []));
  await vi.waitFor(() => expect(settled()).toHaveLength(1), { timeout: 20_000 });
  const [cost = 0n] = settled();
  expect(cost).toBeGreaterThan(0n);
  expect(budgets.available).toBe(funds - cost);
});

it("that is over without an instance pay nothing either", async () => {
  const { edge } = await edgeThat(() => Promise.reject(coldStartsFull("org/model", 42)));
  const funds = edge.budgets.available;
  expect((await edge.post("/v1/compat/chat/completions", body)).status).toBe(503);
  for (const { end } of edge.budgets.holds) expect(end).toEqual({ how: "released" });
  expect(edge.budgets.available).toBe(funds);
});

it("under an idempotency key, gone before anything ran, may be sent again: an instance had only turned it away", async () => {
  const wait = Promise.withResolvers<"gone">();
  const { edge, waited } = await edgeThat(() => wait.promise, undefined, 1);
  edge.agent.script({ kind: "refuse", refusal: "not_ready", status: 503 }, { kind: "whole" });
  const gone = new AbortController();
  const ask = (signal?: AbortSignal) =>
    edge.post("/v1/chat/completions", body, { headers: { "idempotency-key": "k1" }, ...(signal ? { signal } : {}) });
  const first = ask(gone.signal).catch(() => "gone");
  await vi.waitFor(() => expect(waited).toHaveLength(1), { timeout: 20_000 });
  gone.abort();
  expect(await first).toBe("gone");
  wait.resolve("gone");
  await vi.waitFor(async () => expect((await ask()).status).toBe(200), { timeout: 20_000 });
});

it("streamed under an idempotency key and refused after signs of life alone, may be sent again", async () => {
  const { edge } = await edgeThat(
    async (sink) => {
      sink.write(Buffer.from(": starting\n\n"));
      throw coldStartsFull("org/model", 42);
    },
    undefined,
    1,
  );
  edge.agent.script({ kind: "refuse", refusal: "not_ready", status: 503 }, { kind: "stream" });
  const ask = async () => {
    const answer = await edge.post(
      "/v1/chat/completions",
      { ...body, stream: true },
      { headers: { "idempotency-key": "k1" } },
    );
    return [answer.status, await answer.text()];
  };
  expect(await ask()).toEqual([200, expect.stringContaining("cold_start_full")]);
  expect(await ask()).toEqual([200, expect.stringContaining("data: [DONE]")]);
});

it("wakes an instance that sleeps when those awake are full, and replies 429 at once", async () => {
  const { edge, waited, woken } = await edgeThat(async () => "ready", undefined, 1);
  edge.agent.script({ kind: "refuse", refusal: "busy", status: 429, retryAfter: 3 });
  expect((await edge.post("/v1/chat/completions", body)).status).toBe(429);
  expect([woken, waited]).toEqual([["org/model"], []]);
});
