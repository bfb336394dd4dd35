import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hasModel, type RuntimeProcess, startRuntime } from "./runtime-process.ts";

const weather = {
  type: "function",
  function: {
    name: "get_weather",
    parameters: {
      type: "object",
      properties: { city: { type: "string", maxLength: 12 }, unit: { enum: ["celsius", "fahrenheit"] } },
      required: ["city", "unit"],
    },
  },
};
const alarm = {
  type: "function",
  function: {
    name: "set_alarm",
    parameters: {
      type: "object",
      properties: { hour: { type: "integer", minimum: 0, maximum: 23 } },
      required: ["hour"],
    },
  },
};
const request = {
  model: "m",
  temperature: 0,
  max_tokens: 200,
  messages: [{ role: "user", content: "What is the weather in Paris in celsius?" }],
  tools: [weather, alarm],
};

function expectWeather(args: string): void {
  const { city, unit } = JSON.parse(args);
  expect(typeof city).toBe("string");
  expect(city.length).toBeLessThanOrEqual(12);
  expect(["celsius", "fahrenheit"]).toContain(unit);
}

describe.runIf(hasModel("tool calls under a Hermes-style template"))("tool calls", () => {
  let runtime: RuntimeProcess;
  beforeAll(async () => {
    const template = join(import.meta.dirname, "hermes.jinja");
    runtime = await startRuntime({ STOKER_CHAT_TEMPLATE_FILE: template, STOKER_MAX_BATCH_SIZE: "2" });
  });
  afterAll(() => runtime?.stop());
  const chat = (body: object) => runtime.post("/v1/chat/completions", { ...request, ...body });
  const named = { tool_choice: { type: "function", function: { name: "get_weather" } } };

  it("are made once, by the tool that was named, with arguments of its schema", async () => {
    const { status, body } = await chat(named);
    expect(status).toBe(200);
    const [choice] = body.choices;
    expect(choice.finish_reason).toBe("tool_calls");
    expect(choice.message.content).toBeNull();
    expect(choice.message.tool_calls).toHaveLength(1);
    const [call] = choice.message.tool_calls;
    expect(call).toMatchObject({ type: "function", function: { name: "get_weather" } });
    expect(call.id).toMatch(/^call_\w{24}$/);
    expectWeather(call.function.arguments);
  });

  it("stream as a name and then the parts of its arguments", async () => {
    const { chunks } = await runtime.stream("/v1/chat/completions", { ...request, ...named });
    const deltas = chunks.flatMap((chunk) => chunk.choices[0].delta.tool_calls ?? []);
    expect(deltas[0]).toMatchObject({ index: 0, type: "function", function: { name: "get_weather" } });
    expect(deltas.filter((delta) => delta.id)).toHaveLength(1);
    expect(deltas.length).toBeGreaterThan(3);
    expectWeather(deltas.map((delta) => delta.function.arguments).join(""));
    expect(chunks.at(-1).choices[0].finish_reason).toBe("tool_calls");
    expect(chunks.map((chunk) => chunk.choices[0].delta.content ?? "").join("")).toBe("");
  });

  it("are made when required, whole and streamed, each fitting its own tool", async () => {
    const check = (name: string, args: string) => {
      if (name === "get_weather") return expectWeather(args);
      expect(name).toBe("set_alarm");
      const { hour } = JSON.parse(args);
      expect(Number.isInteger(hour) && hour >= 0 && hour <= 23).toBe(true);
    };
    const { body } = await chat({ tool_choice: "required", temperature: 1, seed: 5 });
    expect(body.choices[0].finish_reason).toBe("tool_calls");
    const calls = body.choices[0].message.tool_calls;
    expect(calls.length).toBeGreaterThan(0);
    for (const call of calls) check(call.function.name, call.function.arguments);
    const { chunks } = await runtime.stream("/v1/chat/completions", {
      ...request,
      tool_choice: "required",
      parallel_tool_calls: false,
    });
    const deltas = chunks.flatMap((chunk) => chunk.choices[0].delta.tool_calls ?? []);
    check(deltas[0].function.name, deltas.map((delta) => delta.function.arguments).join(""));
  });

  it("are not made when the choice is none, and a conversation with calls and results is understood", async () => {
    const none = await chat({ tool_choice: "none", max_tokens: 8 });
    expect(none.body.choices[0].message.tool_calls).toBeUndefined();
    const call = { id: "call_1", type: "function", function: { name: "get_weather", arguments: '{"city":"Paris"}' } };
    const { status, body } = await chat({
      max_tokens: 8,
      messages: [
        ...request.messages,
        { role: "assistant", content: null, tool_calls: [call] },
        { role: "tool", tool_call_id: "call_1", content: "21 degrees" },
      ],
    });
    expect(status).toBe(200);
    expect(body.usage.completion_tokens).toBeGreaterThan(0);
  });

  it("are refused when the schema holds what a grammar cannot", async () => {
    const odd = { type: "function", function: { name: "odd", parameters: { type: "object", minProperties: 2 } } };
    const { status, body } = await chat({ tools: [odd], tool_choice: "required" });
    expect(status).toBe(400);
    expect(body.error.message).toContain("minProperties");
  });
});
