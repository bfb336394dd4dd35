// Anthropic's own client, unmodified, against the HTTP edge with a scripted engine.
import Anthropic, {
  APIError,
  AuthenticationError,
  BadRequestError,
  NotFoundError,
  RateLimitError,
  UnprocessableEntityError,
} from "@anthropic-ai/sdk";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { figures } from "../fakes/agent-data-plane.ts";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { ada, apiKey, servedModel } from "../fakes/ports.ts";

let edge: Edge;
let client: Anthropic;
beforeAll(async () => {
  edge = await startEdge();
});
beforeEach(() => {
  client = new Anthropic({ apiKey, baseURL: edge.url, maxRetries: 0 });
  edge.agent.asked.length = 0;
});
afterAll(() => edge.close());

const usage = {
  prompt_tokens: 6,
  completion_tokens: 3,
  total_tokens: 9,
  prompt_tokens_details: { cached_tokens: 2 },
  completion_tokens_details: { reasoning_tokens: 1 },
  estimated_cost: 0.00000022,
};
const head = { id: "c", created: 1, model: "org/model" };
const chunk = (delta: object, finish: string | null = null, extra: object = {}) =>
  `data: ${JSON.stringify({ ...head, object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason: finish }], ...extra })}\n\n`;
const reply = (message: object, finish = "stop", choice: object = {}) => ({
  kind: "whole" as const,
  body: JSON.stringify({
    ...head,
    object: "chat.completion",
    choices: [
      { index: 0, message: { role: "assistant", content: null, ...message }, finish_reason: finish, ...choice },
    ],
    usage,
  }),
});
const call = { id: "call_1", type: "function", function: { name: "get_weather", arguments: '{"city":"Rome"}' } };
const tools: Anthropic.Tool[] = [
  { name: "get_weather", input_schema: { type: "object", properties: { city: { type: "string" } } } },
];
const hello: Anthropic.MessageCreateParamsNonStreaming = {
  model: "org/model",
  max_tokens: 100,
  messages: [{ role: "user", content: "Hi" }],
};
const sent = (i = -1) => JSON.parse((edge.agent.asked.at(i)?.body ?? Buffer.from("{}")).toString());

describe("Anthropic's client", () => {
  it("creates a message", async () => {
    edge.agent.script(reply({ content: "Hello!" }));
    const { data, response } = await client.messages.create(hello).withResponse();
    expect(data).toMatchObject({
      id: expect.stringMatching(/^msg_\w+$/),
      type: "message",
      role: "assistant",
      model: "org/model",
      content: [{ type: "text", text: "Hello!" }],
      stop_reason: "end_turn",
      stop_sequence: null,
      usage: { input_tokens: 4, cache_read_input_tokens: 2, cache_creation_input_tokens: 0, output_tokens: 3 },
    });
    const { _request_id: requestId } = data as { _request_id?: string };
    expect(requestId).toBe(response.headers.get("x-stoker-request-id"));
    expect(data.id).toBe(`msg_${requestId}`);
    expect(edge.agent.asked[0]?.path).toMatch(/\/v1\/chat\/completions$/);
    expect(sent()).toEqual({ model: "org/model", max_tokens: 100, messages: [{ role: "user", content: "Hi" }] });
  });

  it("holds, settles and records the end user as chat does", async () => {
    edge.agent.script(reply({ content: "Hello!" }));
    await client.messages.create({ ...hello, metadata: { user_id: "user-7" } });
    const messages = edge.budgets.holds.at(-1);
    edge.agent.script(reply({ content: "Hello!" }));
    await (await edge.post("/v1/chat/completions", { ...hello, user: "user-7" })).text();
    expect(messages?.end).toEqual(edge.budgets.holds.at(-1)?.end);
    expect(messages?.end).toMatchObject({ how: "settled" });
    expect(sent(-2)).toEqual(sent(-1));
  });

  it("is served under a base URL of its own", async () => {
    edge.agent.script(reply({ content: "Hello!" }));
    const other = new Anthropic({ apiKey, baseURL: `${edge.url}/anthropic`, maxRetries: 0 });
    expect((await other.messages.create(hello)).content).toMatchObject([{ text: "Hello!" }]);
  });

  it("accepts the key as a bearer token", async () => {
    edge.agent.script(reply({ content: "Hello!" }));
    const other = new Anthropic({ apiKey: null, authToken: apiKey, baseURL: edge.url, maxRetries: 0 });
    expect((await other.messages.create(hello)).content).toMatchObject([{ text: "Hello!" }]);
  });

  it("streams text", async () => {
    edge.agent.script({
      kind: "stream",
      frames: [chunk({ role: "assistant", content: "Hel" }), chunk({ content: "lo" }), chunk({}, "stop", { usage })],
      usage: figures,
    });
    const said: string[] = [];
    const stream = client.messages.stream(hello).on("text", (text) => said.push(text));
    const message = await stream.finalMessage();
    expect(said).toEqual(["Hel", "lo"]);
    expect(message).toMatchObject({
      content: [{ type: "text", text: "Hello" }],
      stop_reason: "end_turn",
      usage: { input_tokens: 4, cache_read_input_tokens: 2, output_tokens: 3 },
    });
  });

  it("streams named events in order", async () => {
    edge.agent.script({
      kind: "stream",
      frames: [
        chunk({ role: "assistant", reasoning_content: "hm" }),
        chunk({ content: "It is" }),
        chunk({ tool_calls: [{ index: 0, ...call, function: { ...call.function, arguments: "" } }] }),
        chunk({ tool_calls: [{ index: 0, function: { arguments: '{"city":' } }] }),
        chunk({ tool_calls: [{ index: 0, function: { arguments: '"Rome"}' } }] }),
        chunk({}, "tool_calls", { usage }),
      ],
      usage: figures,
    });
    const answer = await edge.post("/v1/messages", { ...hello, tools, stream: true });
    expect(answer.headers.get("content-type")).toMatch(/^text\/event-stream/);
    const text = await answer.text();
    const names = [...text.matchAll(/^event: (\w+)\ndata: \{"type":"(\w+)"/gm)].map(([, name, type]) => [name, type]);
    expect(names.map(([name]) => name)).toEqual([
      "message_start",
      ...["content_block_start", "ping", "content_block_delta", "content_block_delta", "content_block_stop"],
      ...["content_block_start", "content_block_delta", "content_block_stop"],
      ...["content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"],
      ...["message_delta", "message_stop"],
    ]);
    for (const [name, type] of names) expect(type).toBe(name);
    expect(text).not.toContain("[DONE]");
  });

  it("calls a tool and sends its result back", async () => {
    edge.agent.script(reply({ content: "Let me look.", tool_calls: [call] }, "tool_calls"));
    const first = await client.messages.create({ ...hello, tools, tool_choice: { type: "any" } });
    expect(first.stop_reason).toBe("tool_use");
    expect(first.content).toMatchObject([
      { type: "text", text: "Let me look." },
      { type: "tool_use", id: "call_1", name: "get_weather", input: { city: "Rome" } },
    ]);
    expect(sent()).toMatchObject({ tool_choice: "required", tools: [{ function: { name: "get_weather" } }] });
    edge.agent.script(reply({ content: "21 C" }));
    await client.messages.create({
      ...hello,
      tools,
      messages: [
        ...hello.messages,
        { role: "assistant", content: first.content as Anthropic.ContentBlockParam[] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "call_1", content: "21 C" }] },
      ],
    });
    expect(sent().messages).toEqual([
      { role: "user", content: "Hi" },
      { role: "assistant", content: "Let me look.", tool_calls: [call] },
      { role: "tool", content: "21 C", tool_call_id: "call_1" },
    ]);
  });

  it("returns thinking to the model that wrote it, shown or omitted, streamed or not", async () => {
    const thinking = (display: "summarized" | "omitted") => ({
      type: "enabled" as const,
      budget_tokens: 2000,
      display,
    });
    for (const display of ["summarized", "omitted"] as const)
      for (const isStream of [false, true]) {
        edge.agent.script(
          isStream
            ? {
                kind: "stream",
                frames: [
                  chunk({ reasoning_content: "It is " }),
                  chunk({ reasoning_content: "2." }),
                  chunk({ content: "2" }, "stop"),
                ],
              }
            : reply({ reasoning_content: "It is 2.", content: "2" }),
        );
        const request = { ...hello, thinking: thinking(display) };
        const first = isStream
          ? await client.messages.stream(request).finalMessage()
          : await client.messages.create(request);
        expect(first.content).toMatchObject([
          {
            type: "thinking",
            thinking: display === "omitted" ? "" : "It is 2.",
            signature: expect.stringMatching(/./),
          },
          { type: "text", text: "2" },
        ]);
        expect(sent()).toMatchObject({ reasoning: { enabled: true }, chat_template_kwargs: { enable_thinking: true } });
        edge.agent.script(reply({ content: "Yes" }));
        const content = first.content as Anthropic.ContentBlockParam[];
        await client.messages.create({
          ...hello,
          messages: [...hello.messages, { role: "assistant", content }, { role: "user", content: "Sure?" }],
        });
        expect(sent().messages[1]).toEqual({ role: "assistant", content: "2", reasoning_content: "It is 2." });
      }
  });

  it("refuses thinking that another account received", async () => {
    edge.agent.script(reply({ reasoning_content: "It is 2.", content: "2" }));
    const { content } = await client.messages.create(hello);
    edge.authenticator.callers.set("stk_bob", { ...ada, account: "u:1000000000009" as typeof ada.account });
    const bob = new Anthropic({ apiKey: "stk_bob", baseURL: edge.url, maxRetries: 0 });
    const messages = [
      ...hello.messages,
      { role: "assistant" as const, content: content as Anthropic.ContentBlockParam[] },
    ];
    await expect(bob.messages.create({ ...hello, messages })).rejects.toThrow(BadRequestError);
    await expect(bob.messages.create({ ...hello, messages })).rejects.toThrow(/Invalid signature in thinking block/);
  });

  it("names the stop sequence that the engine reports, and none where it reports none", async () => {
    const request = { ...hello, stop_sequences: ["END", "STOP"] };
    edge.agent.script(reply({ content: "a" }, "stop", { stop_reason: "END" }));
    expect(await client.messages.create(request)).toMatchObject({ stop_reason: "stop_sequence", stop_sequence: "END" });
    expect(sent().stop).toEqual(["END", "STOP"]);
    edge.agent.script(reply({ content: "a" }, "stop", { matched_stop: "STOP" }));
    expect(await client.messages.create(request)).toMatchObject({
      stop_reason: "stop_sequence",
      stop_sequence: "STOP",
    });
    edge.agent.script(reply({ content: "a" }, "stop", { stop_reason: 128_009 }));
    expect(await client.messages.create(request)).toMatchObject({ stop_reason: "end_turn", stop_sequence: null });
  });

  it("lists models page by page, forwards and backwards, and shows one", async () => {
    const names = ["org/a", "org/b", "org/c", "org/d", "org/e"];
    const before = edge.models.models;
    edge.models.models = names.map((name) => servedModel({ name }));
    try {
      const listed: string[] = [];
      for await (const { id } of client.models.list({ limit: 2 })) listed.push(id);
      expect(listed).toEqual(names);
      const first = await client.models.list({ limit: 2 });
      expect([first.has_more, first.first_id, first.last_id]).toEqual([true, "org/a", "org/b"]);
      const back = await client.models.list({ limit: 2, before_id: "org/e" });
      expect([back.has_more, back.data.map(({ id }) => id)]).toEqual([true, ["org/c", "org/d"]]);
      const start = await client.models.list({ limit: 2, before_id: "org/c" });
      expect([start.has_more, start.data.map(({ id }) => id)]).toEqual([false, ["org/a", "org/b"]]);
      const model: Anthropic.ModelInfo = await client.models.retrieve("org/c");
      expect(model).toMatchObject({
        type: "model",
        id: "org/c",
        display_name: "org/c",
        created_at: "2026-08-06T07:06:40Z",
        max_input_tokens: 4096,
        lifecycle: "active",
      });
      await expect(client.models.retrieve("org/z")).rejects.toThrow(NotFoundError);
      await expect(client.models.retrieve("org/z")).rejects.toMatchObject({ type: "not_found_error" });
      await expect(client.models.list({ after_id: "org/z" })).rejects.toMatchObject({ status: 422 });
    } finally {
      edge.models.models = before;
    }
  });

  it("lists models in its own format under its own base URL, with slashes in their names", async () => {
    const ask = (path: string, headers: Record<string, string> = {}) =>
      fetch(edge.url + path, { headers: { "x-api-key": apiKey, ...headers } }).then((answer) => answer.json());
    const version = { "anthropic-version": "2023-06-01" };
    for (const base of ["", "/anthropic"]) {
      expect(await ask(`${base}/v1/models`, version)).toMatchObject({ has_more: false, data: [{ type: "model" }] });
      expect(await ask(`${base}/v1/models/org/model`, version)).toMatchObject({ type: "model", id: "org/model" });
    }
    expect(await ask("/v1/models")).toMatchObject({ object: "list", data: [{ object: "model" }] });
    expect(await ask("/v1/models/org/model")).toMatchObject({ object: "model", id: "org/model" });
  });

  it("throws the errors of its own types", async () => {
    const create = (change: object = {}, from = client) => from.messages.create({ ...hello, ...change });
    const stranger = new Anthropic({ apiKey: "stk_unknown", baseURL: edge.url, maxRetries: 0 });
    await expect(create({}, stranger)).rejects.toThrow(AuthenticationError);
    await expect(create({ model: "nobody/knows" })).rejects.toThrow(NotFoundError);
    await expect(create({ model: "nobody/knows" })).rejects.toMatchObject({
      type: "not_found_error",
      errorCode: "model_not_found",
      requestID: expect.stringMatching(/^\w+$/),
    });
    await expect(create({ max_tokens: undefined })).rejects.toThrow(UnprocessableEntityError);
    await expect(create({ max_tokens: undefined })).rejects.toMatchObject({
      type: "invalid_request_error",
      apiMessage: expect.stringContaining("max_tokens"),
    });
    const body = JSON.stringify({ error: { message: "too long", code: "context_length_exceeded" } });
    edge.agent.script({ kind: "error", status: 400, body });
    await expect(create()).rejects.toThrow(BadRequestError);
    await expect(create()).rejects.toMatchObject({ errorCode: "context_length_exceeded" });
  });

  it("throws the error of a stream that broke", async () => {
    edge.agent.script({ kind: "break", afterFrames: 1 });
    await expect(client.messages.stream(hello).finalMessage()).rejects.toThrow(APIError);
    edge.agent.script({ kind: "break", afterFrames: 1 });
    await expect(client.messages.stream(hello).finalMessage()).rejects.toMatchObject({
      type: "api_error",
      errorCode: "upstream_error",
    });
  });

  it("receives the rate limits in its own headers", async () => {
    edge.agent.script(reply({ content: "Hello!" }));
    edge.rates.setOwnLimits(new Map([[ada.account, { concurrent: 5, tokensPerMinute: 1000, weight: 1 }]]));
    const { response } = await client.messages.create(hello).withResponse();
    const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "anthropic-ratelimit-requests-limit": "5",
      "anthropic-ratelimit-requests-remaining": "4",
      "anthropic-ratelimit-requests-reset": time,
      "anthropic-ratelimit-tokens-limit": "1000",
      "anthropic-ratelimit-tokens-remaining": expect.stringMatching(/^\d+$/),
      "anthropic-ratelimit-tokens-reset": time,
    });
    expect(response.headers.has("x-ratelimit-limit-requests")).toBe(false);
    const permit = Array.from({ length: 5 }, () => edge.rates.meter(ada.account, servedModel().deployId).take());
    try {
      const refused = client.messages.create(hello);
      await expect(refused).rejects.toThrow(RateLimitError);
      await expect(refused).rejects.toMatchObject({ type: "rate_limit_error" });
      expect(((await refused.catch((error: unknown) => error)) as APIError).headers?.get("retry-after")).toBe("1");
    } finally {
      for (const one of permit) one.end(0);
      edge.rates.setOwnLimits(new Map());
    }
  });

  it("runs a repeated request once", async () => {
    edge.agent.script(reply({ content: "Hello!" }));
    const options = { headers: { "idempotency-key": "messages-1" } };
    const first = await client.messages.create(hello, options);
    expect(await client.messages.create(hello, options)).toEqual(first);
    expect(edge.agent.asked).toHaveLength(1);
  });
});
