// A provider that speaks only Anthropic's Messages API serves chats, responses and messages as any external server does.
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { type AnthropicServer, startAnthropicServer, tokens } from "../../fakes/anthropic-server.ts";
import { type FakeEngine, startFakeEngine } from "../../fakes/engine.ts";
import { type Stack, startStack } from "../../fakes/processes.ts";
import { query, type UsageRow } from "./database.ts";

const [model, other, key] = ["provider/claude", "provider/other", "sk-ant-e2e"];
const served = "claude-stand-in";
const pricing = { input: 4, cached_input: 1, output: 20 };
const costs = { input: 3, cached_input: 0.5, output: 15, request: 0.001 };
/** 28 tokens of the prompt, 5 of them cached, and 7 of the reply. */
const usage = {
  prompt_tokens: 28,
  completion_tokens: 7,
  total_tokens: 35,
  prompt_tokens_details: { cached_tokens: 5 },
  estimated_cost: (23 * 4 + 5 * 1 + 7 * 20) / 1e6,
};
const requestCost = (23 * 3 + 5 * 0.5 + 7 * 15) / 1e6 + 0.001;
const tools = [
  {
    type: "function" as const,
    function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } },
  },
];
const user = (content: string) => ({ role: "user" as const, content });

let upstream: AnthropicServer;
let fallback: FakeEngine;
let stack: Stack;
let openai: OpenAI;
let ids: Record<string, string>;

async function serve(name: string, server: object): Promise<string> {
  const made = await stack.call("POST", "/v1/admin/external", { name, ...server });
  expect(made.status, JSON.stringify(made.body)).toBe(200);
  const id: string = made.body.deploy_id;
  await vi.waitFor(async () => expect((await stack.call("GET", `/deploy/${id}`)).body.status).toBe("deployed"), {
    timeout: 60_000,
    interval: 100,
  });
  await stack.call("PUT", `/v1/admin/models/${name}`, { deploy_id: id, description: "", pricing });
  return id;
}

beforeAll(async () => {
  stack = await startStack();
  upstream = await startAnthropicServer(served, key);
  fallback = await startFakeEngine({ models: [other], tokens: 2 });
  const server = { url: `${upstream.origin}/v1`, format: "anthropic", served_name: served, api_key: key };
  ids = {
    [model]: await serve(model, { ...server, costs, monthly_limit: 100 }),
    [other]: await serve(other, { url: fallback.origin }),
  };
  await stack.call("PUT", "/v1/model-aliases/prod", { targets: [{ model, weight: 1 }], fallbacks: [other] });
  openai = new OpenAI({ apiKey: stack.apiKey, baseURL: `${stack.url}/v1`, maxRetries: 0 });
});
afterAll(async () => {
  await stack?.stop();
  await Promise.all([upstream?.close(), fallback?.close()]);
});
beforeEach(() => {
  upstream.asked.length = 0;
  upstream.heads.length = 0;
  upstream.fail(undefined);
  upstream.failInStream(undefined);
});

const chat = (body: object) => stack.call("POST", "/v1/chat/completions", { model, ...body });
const stateOf = async (name: string) =>
  (await stack.call("GET", "/v1/admin/external")).body.servers.find(
    (one: { deploy_id: string }) => one.deploy_id === ids[name],
  );

describe("the stand-in", () => {
  it("is read by Anthropic's own client, whole and as a stream", async () => {
    const client = new Anthropic({ apiKey: key, baseURL: upstream.origin, maxRetries: 0 });
    const body = {
      model: served,
      max_tokens: 50,
      messages: [user("hi")],
      tools: [{ name: "weather", input_schema: { type: "object" as const } }],
    };
    const whole = await client.messages.create(body);
    expect(whole.usage).toEqual(tokens);
    expect(await client.messages.stream(body).finalMessage()).toMatchObject({
      content: whole.content,
      stop_reason: "tool_use",
      usage: tokens,
    });
    expect((await client.models.list()).data.map(({ id }) => id)).toEqual([served]);
    const wrong = new Anthropic({ apiKey: "wrong", baseURL: upstream.origin, maxRetries: 0 });
    await expect(wrong.messages.create(body)).rejects.toBeInstanceOf(Anthropic.AuthenticationError);
  });
});

describe("a provider of Anthropic's format", () => {
  it("is asked by the newer version without sampling parameters where its format says so", async () => {
    const name = "provider/newer";
    const newer = { url: `${upstream.origin}/v1`, format: "anthropic-2026-10-21", served_name: served, api_key: key };
    await serve(name, newer);
    const asked = { messages: [user("hi")], temperature: 0.2, top_p: 0.9 };
    const { status, body } = await stack.call("POST", "/v1/chat/completions", { model: name, ...asked });
    expect(status, JSON.stringify(body)).toBe(200);
    expect(upstream.heads).toEqual([["x-api-key", "2026-10-21"]]);
    expect(upstream.asked[0]).not.toHaveProperty("temperature");
    expect(upstream.asked[0]).not.toHaveProperty("top_p");
  });

  it("answers a chat with the provider's tokens and its price", async () => {
    const { status, body } = await chat({
      messages: [{ role: "system", content: "Be brief." }, user("hi")],
      temperature: 1.6,
    });
    expect(status, JSON.stringify(body)).toBe(200);
    expect(body).toMatchObject({
      object: "chat.completion",
      id: expect.stringMatching(/./),
      choices: [{ index: 0, message: { role: "assistant", content: "One two three" }, finish_reason: "stop" }],
      usage,
    });
    expect(upstream.heads).toEqual([["x-api-key", "2023-06-01"]]);
    expect(upstream.asked).toEqual([
      {
        model: served,
        max_tokens: 16_384,
        system: "Be brief.",
        messages: [{ role: "user", content: [{ type: "text", text: "hi" }] }],
        temperature: 1,
      },
    ]);
  });

  it("streams text, thoughts and the arguments of a call to OpenAI's client", async () => {
    const stream = openai.chat.completions.stream({
      model,
      messages: [user("weather?")],
      tools,
      max_completion_tokens: 4_096,
      reasoning_effort: "low",
      stream_options: { include_usage: true },
    });
    const thoughts: string[] = [];
    stream.on("chunk", ({ choices }) => {
      const thought = (choices[0]?.delta as { reasoning_content?: string } | undefined)?.reasoning_content;
      if (thought) thoughts.push(thought);
    });
    const reply = await stream.finalChatCompletion();
    expect(thoughts.join("")).toBe("Hm, well.");
    expect(reply.usage).toMatchObject(usage);
    expect(reply.choices[0]).toMatchObject({
      finish_reason: "tool_calls",
      message: {
        content: "One two three",
        tool_calls: [{ id: "toolu_1", function: { name: "weather", arguments: '{"city":"Rome","n":5}' } }],
      },
    });
    expect(upstream.asked[0]).toMatchObject({ thinking: { type: "enabled", budget_tokens: 2_048 }, stream: true });
  });

  it("sends the results of calls back", async () => {
    const call = {
      id: "functions.weather:0",
      type: "function",
      function: { name: "weather", arguments: '{"n":12345678901234567890}' },
    };
    const messages = [
      user("weather?"),
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: call.id, content: "sunny" },
    ];
    expect((await chat({ messages, tools })).body.choices[0].message).toEqual({
      role: "assistant",
      content: "One two three",
    });
    expect(upstream.asked[0]?.["messages"]).toMatchObject([
      { role: "user" },
      { role: "assistant", content: [{ type: "tool_use", id: "functions_weather_0", name: "weather" }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "functions_weather_0", content: "sunny" }] },
    ]);
  });

  it("serves Responses and Messages, whole and as streams", async () => {
    const whole = await openai.responses.create({ model, input: "hi", max_output_tokens: 50 });
    expect(whole).toMatchObject({ status: "completed", output_text: "One two three" });
    expect(whole.usage).toMatchObject({
      input_tokens: 28,
      output_tokens: 7,
      input_tokens_details: { cached_tokens: 5 },
    });
    const events = openai.responses.stream({ model, input: "hi", max_output_tokens: 50 });
    expect((await events.finalResponse()).output_text).toBe("One two three");
    const client = new Anthropic({ apiKey: stack.apiKey, baseURL: stack.url, maxRetries: 0 });
    const body = { model, max_tokens: 50, messages: [user("hi")] };
    const message = { content: [{ type: "text", text: "One two three" }], stop_reason: "end_turn" };
    const counted = { input_tokens: 23, cache_read_input_tokens: 5, output_tokens: 7 };
    expect(await client.messages.create(body)).toMatchObject({ ...message, usage: counted });
    expect(await client.messages.stream(body).finalMessage()).toMatchObject({ ...message, usage: counted });
  });

  it("refuses what its format cannot express, naming the field, and leaves it to the next model of an alias", async () => {
    const asks = { messages: [user("hi")], seed: 7 };
    expect((await chat(asks)).body.error).toMatchObject({ code: "unsupported_value", param: "seed" });
    const completion = await stack.call("POST", "/v1/completions", { model, prompt: "hi" });
    expect([completion.status, completion.body.error.param]).toEqual([400, "prompt"]);
    expect(upstream.asked).toEqual([]);
    const { status, body } = await stack.call("POST", "/v1/chat/completions", { model: "prod", ...asks });
    expect([status, body.model]).toEqual([200, other]);
  });

  it("records and pays every request to the token", async () => {
    const before = await vi.waitFor(
      async () => {
        const open = await query<{ leased: string }>(
          stack.databaseUrl,
          "select sum(leased)::text as leased from budget where scope like 'provider%'",
        );
        expect(open[0]?.leased).toBe("0");
        return (await stateOf(model)).month.spent as number;
      },
      { timeout: 60_000, interval: 200 },
    );
    const rows = await query<UsageRow>(
      stack.databaseUrl,
      `select input_tokens::int, cached_input_tokens::int, output_tokens::int, source, end_reason
      from usage where deploy_id = $1`,
      [ids[model]],
    );
    expect(rows.length).toBe(7);
    for (const row of rows)
      expect(row).toMatchObject({
        input_tokens: 28,
        cached_input_tokens: 5,
        output_tokens: 7,
        source: "engine",
        end_reason: "stop",
      });
    expect(before).toBeCloseTo(requestCost * rows.length, 9);
  });

  it.each([
    { status: 529, type: "overloaded_error" },
    { status: 429, type: "rate_limit_error" },
  ])("is passed over for the next model of an alias on $status", async (error) => {
    upstream.fail(error);
    expect((await chat({ messages: [user("hi")] })).status).toBe(error.status === 429 ? 429 : 502);
    const { status, body } = await stack.call("POST", "/v1/chat/completions", {
      model: "prod",
      messages: [user("hi")],
    });
    expect([status, body.model]).toEqual([200, other]);
  });

  it("is passed over when its stream fails before the first output", async () => {
    upstream.failInStream("overloaded_error");
    const stream = await openai.chat.completions.create({ model: "prod", messages: [user("hi")], stream: true });
    const models = new Set<string>();
    for await (const chunk of stream) models.add(chunk.model);
    expect([...models]).toEqual([other]);
    expect(upstream.asked.length).toBeGreaterThan(0);
  });

  it("gets no more requests once it refuses the key", async () => {
    upstream.fail({ status: 401, type: "authentication_error" });
    expect((await chat({ messages: [user("hi")] })).status).toBe(502);
    expect((await stateOf(model)).health).toMatchObject({ state: "open", reason: "key_refused" });
    upstream.fail(undefined);
    expect((await chat({ messages: [user("hi")] })).status).toBe(503);
    expect(upstream.asked).toEqual([]);
  });
});
