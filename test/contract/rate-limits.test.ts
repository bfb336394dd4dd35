// Limits on the inference path: who is refused, with which headers, and that every way out of a request gives its place back.
import { afterEach, describe, expect, it, vi } from "vitest";
import { InsufficientFunds } from "../../control-plane/billing/hold.ts";
import { gateAfter } from "../fakes/agent-data-plane.ts";
import { chat, type Edge, startEdge } from "../fakes/edge.ts";
import { ada, operator, servedModel } from "../fakes/ports.ts";

const path = "/v1/chat/completions";
const model = servedModel().deployId;
let edge: Edge;
afterEach(() => edge.close());
const open = async (concurrent: number, tokensPerMinute = 1_000_000) => {
  edge = await startEdge();
  edge.rates.setOwnLimits(new Map([[ada.account, { concurrent, tokensPerMinute, weight: 1 }]]));
};
const standing = () => edge.rates.meter(ada.account, model);
const limited = async () =>
  /^stoker_rate_limited_total\{kind="(.*)"\} (.*)$/gm
    [Symbol.matchAll](await edge.registry.metrics())
    .map(([, kind, count]) => `${kind} ${count}`)
    .toArray();

describe("every inference answer", () => {
  it("says the limits, what is left of them, and when all of it is back", async () => {
    await open(5, 1000);
    await (await edge.post(path, chat())).text();
    const answer = await edge.post(path, chat());
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      "x-ratelimit-limit-requests": "5",
      "x-ratelimit-remaining-requests": "4",
      "x-ratelimit-reset-requests": "1s",
      "x-ratelimit-limit-tokens": "1000",
      // The first request's six of the prompt and three of the answer.
      "x-ratelimit-remaining-tokens": "991",
      "x-ratelimit-reset-tokens": expect.stringMatching(/^(1m0s|5\ds)$/),
    });
  });
});

describe("more requests at once than the limit", () => {
  it("are refused with 429 and when to come back, while another account is served", async () => {
    await open(1);
    const { gate, release } = gateAfter(1);
    edge.agent.script({ kind: "stream", gate }, { kind: "whole" });
    const running = await edge.post(path, chat({ stream: true }));
    const refused = await edge.post(path, chat());
    expect(refused.status).toBe(429);
    expect(Object.fromEntries(refused.headers)).toMatchObject({
      "retry-after": "1",
      ratelimit: '"api";r=0;t=1',
      "x-ratelimit-remaining-requests": "0",
    });
    expect(await refused.json()).toMatchObject({
      error: {
        type: "rate_limit_error",
        code: "rate_limit_exceeded",
        message: expect.stringMatching(
          /^Rate limited: .*at most 1 concurrent requests .* POST \/v1\/me\/rate_limit\/request/,
        ),
      },
    });
    const others = { headers: { authorization: "Bearer stk_test_key_of_operator" } };
    expect((await edge.post(path, chat(), others)).status).toBe(200);
    expect(edge.budgets.holds.map(({ request }) => request.account)).toEqual([ada.account, operator.account]);
    release();
    await running.text();
    expect((await edge.post(path, chat())).status).toBe(200);
    expect(await limited()).toEqual(["concurrency 1"]);
  });
});

describe("more tokens in a minute than the limit", () => {
  it("refuse the next request until enough of them are a minute old", async () => {
    await open(5, 9);
    expect((await edge.post(path, chat())).status).toBe(200);
    const refused = await edge.post(path, chat());
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(30);
    expect(refused.headers.get("x-ratelimit-remaining-tokens")).toBe("0");
    expect(await limited()).toEqual(["tpm 1"]);
  });
});

describe("the slot of a request is free again", () => {
  const free = () => vi.waitFor(() => expect(standing().inFlight).toBe(0), { timeout: 20_000 });

  it("after a refusal for want of money, at once or when the grant comes back", async () => {
    await open(5);
    edge.budgets.hold = () => {
      throw new InsufficientFunds();
    };
    expect((await edge.post(path, chat())).status).toBe(402);
    edge.budgets.hold = () => Promise.reject(new InsufficientFunds());
    expect((await edge.post(path, chat())).status).toBe(402);
    await free();
    expect(standing().tokens).toBe(0);
    expect(await limited()).toEqual(["budget 2"]);
  });

  it("when no instance can be reached", async () => {
    await open(5);
    edge.routes.routes = [];
    expect((await edge.post(path, chat())).status).toBe(503);
    await free();
    expect(standing().tokens).toBe(0);
  });

  it("when the engine refuses", async () => {
    await open(5);
    edge.agent.script({ kind: "error", status: 400, body: '{"error":{"message":"no"}}' });
    expect((await edge.post(path, chat())).status).toBe(400);
    await free();
    expect(standing().tokens).toBe(0);
  });

  it("when an answer breaks off; what was delivered and the prompt count by estimate", async () => {
    await open(5);
    edge.agent.script({ kind: "break", afterFrames: 2 });
    await (await edge.post(path, chat({ stream: true }))).text();
    await free();
    expect(standing().tokens).toBeGreaterThan(2);
    expect(standing().tokens).toBeLessThan(200);
  });

  it("when the client goes away, which does not make its tokens free", async () => {
    await open(5);
    const { gate } = gateAfter(2);
    edge.agent.script({ kind: "stream", gate });
    const leaving = new AbortController();
    const answer = await edge.post(path, chat({ stream: true }), { signal: leaving.signal });
    await answer.body?.getReader().read();
    leaving.abort();
    await free();
    expect(standing().tokens).toBeGreaterThan(1);
  });
});
