// What a chat request may ask of the gateway itself: other models, an answer at once, a tier, marks of its caller's own.
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import type { DeploymentId } from "../../proto/ids.ts";
import type { Ticket } from "../../proto/ticket.ts";
import { frame } from "../fakes/agent-data-plane.ts";
import { chat, type Edge, startEdge, text } from "../fakes/edge.ts";
import { ada, servedModel } from "../fakes/ports.ts";

const path = "/v1/compat/chat/completions";
const other = { name: "org/other", servedName: "org/other", deployId: "OtherDeployment1" as DeploymentId };

let edge: Edge;
beforeAll(async () => {
  edge = await startEdge({ agents: 2 });
});
beforeEach(() => {
  edge.models.models = [servedModel(), servedModel(other)];
  edge.routes.routes = [];
  edge.budgets.holds.length = 0;
  for (const agent of edge.agents) {
    agent.script({ kind: "whole" });
    agent.asked.length = 0;
  }
});
afterAll(() => edge.close());

const [first, second] = [() => edge.agents[0] as Edge["agent"], () => edge.agents[1] as Edge["agent"]];
const route = (agent: Edge["agent"], deployId = servedModel().deployId) => edge.routes.add(agent.origin, { deployId });
const sentTo = (agent: Edge["agent"]) => agent.asked.map(({ body }) => JSON.parse(body.toString()).model);

describe("an unknown model", () => {
  it("names one that differs in few letters, and none that the caller does not see", async () => {
    const messageOf = async (model: string) =>
      ((await (await edge.post(path, chat({ model }))).json()) as { error: { message: string } }).error.message;
    expect(await messageOf("Org/othr")).toContain("Did you mean org/other?");
    expect(await messageOf("someone/else")).not.toContain("Did you mean");
    edge.models.models = [servedModel()];
    expect(await messageOf("Org/othr")).not.toContain("Did you mean");
  });
});

describe("an unknown field", () => {
  it.each([
    [{ max_token: 9 }, "max_token is not a known field. Did you mean max_tokens?"],
    [{ temprature: 0 }, "temprature is not a known field. Did you mean temperature?"],
    [{ max_completion_token: 9 }, "Did you mean max_completion_tokens?"],
  ])("%j is refused: it differs from a known one by a letter", async (field, message) => {
    const answer = await edge.post(path, chat(field));
    const { error } = (await answer.json()) as { error: { message: string; code: string; param: string } };
    expect([answer.status, error.code, error.param]).toEqual([422, "unknown_field", Object.keys(field)[0]]);
    expect(error.message).toContain(message);
  });

  it("webhook is refused with the endpoint that has it", async () => {
    const answer = await edge.post(path, chat({ webhook: "https://example.com/hook" }));
    const { error } = (await answer.json()) as { error: { message: string; code: string; param: string } };
    expect([answer.status, error.code, error.param]).toEqual([400, "webhook_unsupported", "webhook"]);
    expect(error.message).toContain("`/v1/inference/MODEL`");
  });

  it.each(["/v1/embeddings", "/v1/images/generations", "/v1/responses", "/v1/audio/speech", "/v1/messages"])(
    "webhook is refused by %s",
    async (endpoint) => {
      const fields = { messages: [{ role: "user", content: "a" }], input: "a", prompt: "a", max_tokens: 1 };
      const answer = await edge.post(endpoint, { model: "org/model", ...fields, webhook: "https://example.com/hook" });
      expect([answer.status, await answer.text()]).toEqual([400, expect.stringContaining("/v1/inference/MODEL")]);
    },
  );

  it("of another server is ignored, however many there are", async () => {
    route(first());
    const others = Object.fromEntries(Array.from({ length: 5000 }, (_, n) => [`other_option_${n}`, n]));
    const fields = {
      min_tokens: 1,
      length_penalty: 1,
      prompt_logprobs: 1,
      top_a: 1,
      web_search_options: {},
      ...others,
    };
    const answer = await edge.post(path, chat(fields));
    expect(answer.status, await answer.clone().text()).toBe(200);
    expect(JSON.parse((first().asked[0]?.body ?? "{}").toString())).not.toHaveProperty("other_option_0");
  });
});

describe("a host that registers again", () => {
  it("is asked again until it has its new key", async () => {
    route(first());
    first().script({ kind: "refuse", refusal: "ticket", status: 403 });
    const answer = edge.post(path, chat({}));
    await vi.waitFor(() => expect(first().asked).toHaveLength(1));
    first().script({ kind: "whole" });
    expect((await answer).status).toBe(200);
    expect(first().asked).toHaveLength(2);
  });
});

describe("`models`", () => {
  it("are asked in their order where the first is not ready, and the one that answered is billed alone", async () => {
    route(second(), other.deployId);
    const answer = await edge.post(path, chat({ models: ["no/such", "org/other"] }));
    expect(answer.status, await answer.clone().text()).toBe(200);
    expect(sentTo(second())).toEqual(["org/other"]);
    expect(JSON.parse((second().asked[0]?.body ?? "{}").toString())).not.toHaveProperty("models");
    const ends = edge.budgets.holds.map(({ end }) => end?.how);
    expect(ends).toEqual(["released", "settled"]);
  });

  it("take over from one that is at its capacity or unknown", async () => {
    route(first());
    route(second(), other.deployId);
    first().script({ kind: "refuse", refusal: "busy", status: 429, retryAfter: 3 });
    expect((await edge.post(path, chat({ models: ["org/other"] }))).status).toBe(200);
    expect((await edge.post(path, chat({ model: "no/such", models: ["org/other"] }))).status).toBe(200);
  });

  it("take over from a server that fails before its first byte, and not from one that refuses the request", async () => {
    route(first());
    route(second(), other.deployId);
    first().script({ kind: "error", status: 400, body: '{"error":{"message":"too long"}}' });
    expect((await edge.post(path, chat({ models: ["org/other"] }))).status).toBe(400);
    first().script({ kind: "error", status: 504, body: '{"error":{"message":"too slow"}}' });
    expect((await edge.post(path, chat({ models: ["org/other"] }))).status).toBe(504);
    expect(second().asked).toHaveLength(0);
    first().script({ kind: "break", afterFrames: 0 });
    expect((await edge.post(path, chat({ models: ["org/other"] }))).status).toBe(200);
    expect(sentTo(second())).toEqual(["org/other"]);
  });

  it("that cannot serve either: the last one's reason is told", async () => {
    const answer = await edge.post(path, chat({ models: ["no/such"] }));
    expect([answer.status, (await answer.json()).error.code]).toEqual([404, "model_not_found"]);
  });
});

describe("`fail_fast`", () => {
  it("refuses at once what would wait for a place", async () => {
    const busy = route(first());
    busy.inFlight = busy.maxBatchSize;
    const answer = await edge.post(path, chat({ fail_fast: true }));
    expect([answer.status, (await answer.json()).error.code]).toEqual([429, "engine_overloaded"]);
    expect(answer.headers.get("retry-after")).toBe("1");
    expect(first().asked).toHaveLength(0);
    expect((await edge.post(path, chat())).status).toBe(200);
  });
});

describe("`service_tier`", () => {
  beforeEach(() => void route(first()));

  it.each(["default", "priority", "no-such-tier"])("%s is served, and the answer says at which", async (tier) => {
    const answer = await (await edge.post(path, chat({ service_tier: tier }))).json();
    expect(answer.service_tier).toBe("default");
    expect(answer.choices[0].message.content).toBe("Hello!");
  });

  it("stands in every event of a stream, also where an engine says null", async () => {
    const withNull = frame("ü").replace('"model"', '"service_tier":null,"model"');
    first().script({ kind: "stream", frames: [frame("a"), withNull] });
    const body = await (await edge.post(path, chat({ stream: true, service_tier: "flex" }))).text();
    const events = body.trim().split("\n\n");
    expect(events.at(-1)).toBe("data: [DONE]");
    const chunks = events.slice(0, -1).map((event) => JSON.parse(event.slice(6)));
    expect(chunks.map((chunk) => chunk.service_tier)).toEqual(["flex", "flex"]);
    expect(chunks[1].choices[0].delta.content).toBe("ü");
  });

  it("stands in every event of an engine that ends its lines as HTTP does, wherever the bytes are cut", async () => {
    const crlf = frame("a").replace("data: ", "data:").replaceAll("\n", "\r\n");
    first().script({
      kind: "stream",
      frames: [crlf.slice(0, -3), `${crlf.slice(-3)}${crlf.slice(0, 20)}`, crlf.slice(20)],
    });
    const body = await (await edge.post(path, chat({ stream: true, service_tier: "flex" }))).text();
    const events = body.trim().split("\n\n");
    expect(events.at(-1)).toBe("data: [DONE]");
    const told = events.slice(0, -1).map((event) => JSON.parse(event.slice(6)));
    expect(told.map(({ service_tier: tier, choices }) => [tier, choices[0].delta.content])).toEqual([
      ["flex", "a"],
      ["flex", "a"],
    ]);
  });

  it("`priority` is served to an account that may use it, at its price, and the ticket says so", async () => {
    edge.authenticator.callers.set("stk_priority", { ...ada, mayPrioritize: true });
    const rates = { input: 1_000n, cachedInput: 500n, output: 2_000n };
    edge.models.models = [servedModel({ rates, tierPercents: { priority: 200, flex: 50 } })];
    const headers = { authorization: "Bearer stk_priority" };
    const tiers: unknown[] = [];
    for (const tier of ["priority", "flex", "auto"]) {
      const answer = await (await edge.post(path, chat({ service_tier: tier }), { headers })).json();
      const { ticket } = first().asked.at(-1) as { ticket: Ticket };
      tiers.push([answer.service_tier, ticket.tier, ticket.rates[0], ticket.discountId]);
    }
    expect(tiers).toEqual([
      ["priority", "priority", "2000", "priority"],
      ["flex", "flex", "500", "flex"],
      ["default", undefined, "1000", undefined],
    ]);
  });

  it("is the field `priority` of an engine that orders requests by it", async () => {
    edge.models.models = [servedModel({ engine: "external", takesPriority: true })];
    await (await edge.post(path, chat({ service_tier: "flex" }))).arrayBuffer();
    await (await edge.post(path, chat())).arrayBuffer();
    expect(first().asked.map(({ body }) => JSON.parse(String(body)).priority)).toEqual([1, undefined]);
  });

  it.each([
    ["/v1/responses", { model: "org/model", input: "Hi", service_tier: "flex" }, "flex", "flex"],
    ["/v1/responses", { model: "org/model", input: "Hi", service_tier: "priority" }, "default", undefined],
  ])("of %s with %j is %s", async (url, body, served, ticketTier) => {
    const answer = await (await edge.post(url, JSON.stringify(body))).json();
    expect(answer.service_tier).toBe(served);
    const { ticket } = first().asked.at(-1) as { ticket: Ticket };
    expect(ticket.tier).toBe(ticketTier);
  });

  it("of a message is `standard` or `priority`, as its API names them", async () => {
    edge.authenticator.callers.set("stk_priority", { ...ada, mayPrioritize: true });
    const message = (service_tier: string) =>
      JSON.stringify({ model: "org/model", max_tokens: 5, messages: [{ role: "user", content: "Hi" }], service_tier });
    const headers = { authorization: "Bearer stk_priority" };
    for (const [tier, served] of [
      ["priority", "priority"],
      ["auto", "standard"],
      ["standard_only", "standard"],
    ] as const) {
      const answer = await (await edge.post("/v1/messages", message(tier), { headers })).json();
      expect(answer.usage.service_tier).toBe(served);
    }
  });

  it("that was not asked for is not spoken of", async () => {
    expect(await (await edge.post(path, chat())).json()).not.toHaveProperty("service_tier");
  });
});

it.each([
  [404, '{"detail":"Not Found"}'],
  [404, '{"error":{"message":"no such path","type":"invalid_request_error","code":"not_found"}}'],
  [405, '{"detail":"Method Not Allowed"}'],
])("a model whose engine has no such path is told to be of another task (%i)", async (status, body) => {
  route(first());
  first().script({ kind: "error", status, body });
  const answer = await edge.post("/v1/embeddings", { model: "org/model", input: "x" });
  expect([answer.status, (await answer.json()).error.code]).toEqual([400, "unsupported_task"]);
});

it("returns 400 with the engine's message for a status that the interface lacks", async () => {
  route(first());
  first().script({ kind: "error", status: 415, body: '{"error":{"message":"no such audio","code":"bad_audio"}}' });
  const answer = await edge.post(path, chat());
  expect([answer.status, (await answer.json()).error]).toEqual([
    400,
    {
      message: "no such audio",
      type: "invalid_request_error",
      param: null,
      code: "bad_audio",
      request_id: answer.headers.get("x-stoker-request-id"),
    },
  ]);
});

it("labels failed requests by the kind of error, whatever codes an engine sends", async () => {
  route(first());
  for (const code of ["made_up_1", "made_up_2"]) {
    first().script({ kind: "error", status: 400, body: JSON.stringify({ error: { message: "refused", code } }) });
    expect((await (await edge.post(path, chat())).json()).error.code).toBe(code);
  }
  const page = await edge.registry.metrics();
  expect(page).toContain('error_type="bad_request"');
  expect(page).not.toContain("made_up");
});

it("keeps the cache key, the source and the id that a caller gives a request", async () => {
  route(first());
  const answer = await edge.post(path, chat({ user: "end-user-7", prompt_cache_key: "thread-1" }), {
    headers: { "x-service-source": "console", "x-request-id": "mine" },
  });
  const requestId = answer.headers.get("x-stoker-request-id");
  // The end user is a part of the usage, so it goes with the ticket.
  expect(first().asked.at(-1)?.ticket).toMatchObject({ endUser: "end-user-7" });
  expect(edge.labels.at(-1)).toEqual({
    requestId,
    label: "mine",
    cacheKey: "thread-1",
    source: "console",
  });
  const before = edge.labels.length;
  await edge.post("/v1/completions", text());
  expect(edge.labels).toHaveLength(before);
});

it("accepts a body above 10 MiB with an image, and refuses one without", async () => {
  route(first());
  const long = "x".repeat(11 * 1024 * 1024);
  const refused = await edge.post(path, chat({ messages: [{ role: "user", content: long }] }));
  expect([refused.status, (await refused.json()).error.message]).toEqual([413, expect.stringContaining("10 MiB")]);
  const picture = { type: "image_url", image_url: { url: `data:image/png;base64,${long}` } };
  const taken = await edge.post(path, chat({ messages: [{ role: "user", content: [picture] }] }));
  expect(taken.status).toBe(200);
  expect(first().asked.at(-1)?.body.length).toBeGreaterThan(11 * 1024 * 1024);
});
