// The unmodified `openai` package uses the Responses API.
import OpenAI from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { figures } from "../fakes/agent-data-plane.ts";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { apiKey } from "../fakes/ports.ts";

let edge: Edge;
let client: OpenAI;
beforeAll(async () => {
  edge = await startEdge();
});
beforeEach(() => {
  client = new OpenAI({ apiKey, baseURL: `${edge.url}/v1/openai`, maxRetries: 0 });
  edge.agent.asked.length = 0;
});
afterAll(() => edge.close());

const usage = {
  prompt_tokens: 6,
  completion_tokens: 3,
  total_tokens: 9,
  estimated_cost: 0.00000022,
  prompt_tokens_details: { cached_tokens: 2 },
  completion_tokens_details: { reasoning_tokens: 1 },
};
const head = { id: "c", created: 1, model: "org/model" };
const whole = (message: object, finish = "stop") =>
  JSON.stringify({
    ...head,
    object: "chat.completion",
    choices: [{ index: 0, message: { role: "assistant", ...message }, finish_reason: finish }],
    usage,
  });
const chunk = (delta: object, finish: string | null = null) =>
  `data: ${JSON.stringify({ ...head, object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
const usageChunk = `data: ${JSON.stringify({ ...head, object: "chat.completion.chunk", choices: [], usage })}\n\n`;
const call = (index: number, fields: object) => ({ tool_calls: [{ index, ...fields }] });

const weather = {
  type: "function" as const,
  name: "get_weather",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  strict: true,
};
const altered = (text: string) => (text.startsWith("A") ? "B" : "A") + text.slice(1);
const sent = () => JSON.parse(String(edge.agent.asked.at(-1)?.body)) as Record<string, unknown>;

describe("the official client", () => {
  it("gets the text and the usage of a response", async () => {
    edge.agent.script({ kind: "whole", body: whole({ content: "Hello!" }) });
    const response = await client.responses.create({
      model: "org/model",
      instructions: "Be kind.",
      input: "Hi",
      max_output_tokens: 20,
      temperature: 0.5,
    });
    expect(response.output_text).toBe("Hello!");
    expect(response).toMatchObject({ object: "response", status: "completed", model: "org/model", error: null });
    expect(response.usage).toEqual({
      input_tokens: 6,
      input_tokens_details: { cached_tokens: 2, cache_write_tokens: 0 },
      output_tokens: 3,
      output_tokens_details: { reasoning_tokens: 1 },
      total_tokens: 9,
      estimated_cost: 0.00000022,
    });
    expect(edge.agent.asked.at(-1)?.path).toMatch(/\/v1\/chat\/completions$/);
    expect(sent()).toMatchObject({
      messages: [
        { role: "system", content: "Be kind." },
        { role: "user", content: "Hi" },
      ],
      max_tokens: 20,
      temperature: 0.5,
    });
  });

  it("streams text", async () => {
    edge.agent.script({
      kind: "stream",
      frames: [
        chunk({ role: "assistant", content: "" }),
        chunk({ content: "Hel" }),
        chunk({ content: "lo" }),
        chunk({}, "stop"),
        usageChunk,
      ],
      usage: figures,
    });
    const stream = client.responses.stream({ model: "org/model", input: "Hi" });
    let said = "";
    stream.on("response.output_text.delta", ({ delta }) => {
      said += delta;
    });
    const final = await stream.finalResponse();
    expect(said).toBe("Hello");
    expect(final.output_text).toBe("Hello");
    expect(final.usage?.total_tokens).toBe(9);
    expect(final.status).toBe("completed");
  });

  it("calls functions, in parallel, and sends their outputs", async () => {
    edge.agent.script({
      kind: "stream",
      frames: [
        chunk({ reasoning_content: "Two cities." }),
        chunk(call(0, { id: "call_a", type: "function", function: { name: "get_weather", arguments: "" } })),
        chunk(call(0, { function: { arguments: '{"city":' } })),
        chunk(call(1, { id: "call_b", type: "function", function: { name: "get_weather", arguments: "{}" } })),
        chunk(call(0, { function: { arguments: '"Rome"}' } })),
        chunk({}, "tool_calls"),
        usageChunk,
      ],
      usage: figures,
    });
    const input: OpenAI.Responses.ResponseInput = [{ role: "user", content: "Weather?" }];
    const first = await client.responses
      .stream({ model: "org/model", input, tools: [weather], tool_choice: "required", parallel_tool_calls: true })
      .finalResponse();
    expect(first.output.map(({ type }) => type)).toEqual(["reasoning", "function_call", "function_call"]);
    expect(first.output[1]).toMatchObject({ call_id: "call_a", arguments: '{"city":"Rome"}', status: "completed" });
    expect(sent()).toMatchObject({
      tool_choice: "required",
      parallel_tool_calls: true,
      tools: [{ type: "function", function: { name: "get_weather", strict: true } }],
    });

    edge.agent.script({ kind: "whole", body: whole({ content: "Sunny." }) });
    input.push(...(first.output as OpenAI.Responses.ResponseInput));
    input.push({ type: "function_call_output", call_id: "call_a", output: "sunny" });
    input.push({ type: "function_call_output", call_id: "call_b", output: [{ type: "input_text", text: "rain" }] });
    const second = await client.responses.create({ model: "org/model", input, tools: [weather] });
    expect(second.output_text).toBe("Sunny.");
    expect(sent()["messages"]).toEqual([
      { role: "user", content: "Weather?" },
      {
        role: "assistant",
        reasoning_content: "Two cities.",
        tool_calls: [
          { id: "call_a", type: "function", function: { name: "get_weather", arguments: '{"city":"Rome"}' } },
          { id: "call_b", type: "function", function: { name: "get_weather", arguments: "{}" } },
        ],
      },
      { role: "tool", tool_call_id: "call_a", content: "sunny" },
      { role: "tool", tool_call_id: "call_b", content: "rain" },
    ]);
  });

  it("calls custom tools", async () => {
    edge.agent.script({
      kind: "stream",
      frames: [
        chunk(call(0, { id: "call_a", type: "function", function: { name: "patch", arguments: '{"input":"a\\n' } })),
        chunk(call(0, { function: { arguments: 'b"}' } })),
        chunk({}, "tool_calls"),
      ],
      usage: figures,
    });
    const response = await client.responses
      .stream({ model: "org/model", input: "Patch it", tools: [{ type: "custom", name: "patch" }] })
      .finalResponse();
    expect(response.output[0]).toMatchObject({ type: "custom_tool_call", name: "patch", input: "a\nb" });
  });

  it("parses structured output", async () => {
    edge.agent.script({ kind: "whole", body: whole({ content: '{"city":"Rome"}' }) });
    const format = { type: "json_schema" as const, name: "place", strict: true, schema: weather.parameters };
    const response = await client.responses.parse({ model: "org/model", input: "Where?", text: { format } });
    expect(response.output_parsed).toEqual({ city: "Rome" });
    expect(sent()["response_format"]).toEqual({
      type: "json_schema",
      json_schema: { name: "place", schema: weather.parameters, strict: true },
    });
  });

  it("is told that a response is incomplete", async () => {
    edge.agent.script({ kind: "whole", body: whole({ content: "Once upon" }, "length") });
    const response = await client.responses.create({ model: "org/model", input: "A tale", max_output_tokens: 2 });
    expect(response).toMatchObject({ status: "incomplete", incomplete_details: { reason: "max_output_tokens" } });
  });

  it("gets reasoning back as it was, encrypted", async () => {
    edge.agent.script({ kind: "whole", body: whole({ reasoning_content: "secret thoughts", content: "Yes." }) });
    const first = await client.responses.create({
      model: "org/model",
      input: "Think",
      reasoning: { effort: "low", summary: "auto" },
      include: ["reasoning.encrypted_content"],
    });
    const [item] = first.output as [OpenAI.Responses.ResponseReasoningItem];
    expect(item.summary).toEqual([{ type: "summary_text", text: "secret thoughts" }]);
    expect(sent()["reasoning_effort"]).toBe("low");
    const again = {
      type: "reasoning" as const,
      id: item.id,
      summary: [],
      encrypted_content: item.encrypted_content as string,
    };
    await client.responses.create({
      model: "org/model",
      input: [again, { role: "assistant", content: "Yes." }, { role: "user", content: "Sure?" }],
    });
    expect(sent()["messages"]).toEqual([
      { role: "assistant", reasoning_content: "secret thoughts", content: "Yes." },
      { role: "user", content: "Sure?" },
    ]);
    const other = { ...again, encrypted_content: altered(again.encrypted_content) };
    await expect(client.responses.create({ model: "org/model", input: [other] })).rejects.toMatchObject({
      status: 400,
      code: "invalid_encrypted_content",
    });
  });

  it("has the oldest turns dropped where it allows that and the engine finds the conversation too long", async () => {
    const tooLong = JSON.stringify({ error: { message: "too long", code: "context_length_exceeded" } });
    const refusal = { kind: "error", status: 400, body: tooLong } as const;
    const input = [1, 2, 3, 4].flatMap((n) => [
      { role: "user" as const, content: `question ${n}` },
      { role: "assistant" as const, content: `answer ${n}` },
    ]);
    const asked = {
      model: "org/model",
      instructions: "Be kind.",
      input: [...input, { role: "user" as const, content: "last" }],
    };
    edge.agent.script(refusal, refusal, { kind: "whole", body: whole({ content: "Yes." }) });
    const response = await client.responses.create({ ...asked, truncation: "auto" });
    expect(response).toMatchObject({ status: "completed", truncation: "auto", output_text: "Yes." });
    expect(sent()["messages"]).toEqual([
      { role: "system", content: "Be kind." },
      { role: "user", content: "question 4" },
      { role: "assistant", content: "answer 4" },
      { role: "user", content: "last" },
    ]);
    expect(edge.agent.asked).toHaveLength(3);
    const costs = edge.budgets.holds.slice(-3).map(({ end }) => end?.how === "settled" && end.cost > 0n);
    expect(costs).toEqual([false, false, true]);

    edge.agent.script(refusal);
    for (const truncation of ["auto", "disabled"] as const)
      await expect(client.responses.create({ ...asked, truncation })).rejects.toMatchObject({
        status: 400,
        code: "context_length_exceeded",
      });
  });

  it("gets a failed response when the stream breaks", async () => {
    edge.agent.script({ kind: "break", afterFrames: 1 });
    const stream = await client.responses.create({ model: "org/model", input: "Hi", stream: true });
    const events = [];
    for await (const event of stream) events.push(event);
    expect(events.at(-1)).toMatchObject({
      type: "response.failed",
      response: { status: "failed", error: { code: "server_error", message: expect.stringContaining("stopped") } },
    });
  });
});
