// Chat and Anthropic's Messages API in front of real weights: the same text, tokens and price.
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { apiKey } from "../../fakes/ports.ts";
import { startTaskEdge, type TaskEdge } from "../../fakes/task-edge.ts";
import { hasModel, type RuntimeProcess, startRuntime } from "./runtime-process.ts";

const model = "org/model";
const question = { role: "user" as const, content: "Count from one to five, with commas." };
const weather = {
  name: "get_weather",
  description: "Weather of a city",
  input_schema: {
    type: "object" as const,
    properties: { city: { type: "string", maxLength: 12 } },
    required: ["city"],
  },
};

describe.runIf(hasModel("the Messages API with a real model"))("the Messages API", () => {
  let runtime: RuntimeProcess;
  let tasks: TaskEdge;
  let anthropic: Anthropic;
  let openai: OpenAI;
  beforeAll(async () => {
    // The model's own template has no tools.
    const template = join(import.meta.dirname, "hermes.jinja");
    runtime = await startRuntime({ STOKER_CHAT_TEMPLATE_FILE: template });
    tasks = await startTaskEdge(runtime.url);
    tasks.offer({
      servedName: "HuggingFaceTB/SmolLM2-135M-Instruct",
      rates: { input: 20_000_000n, cachedInput: 10_000_000n, output: 40_000_000n },
    });
    anthropic = new Anthropic({ apiKey, baseURL: tasks.edge.url, maxRetries: 0 });
    openai = new OpenAI({ apiKey, baseURL: `${tasks.edge.url}/v1/openai`, maxRetries: 0 });
  });
  afterAll(async () => {
    await tasks?.close();
    await runtime?.stop();
  });

  const cold = { temperature: 0, max_tokens: 24 };
  type Request = Omit<Anthropic.MessageCreateParamsNonStreaming, "max_tokens"> & { readonly max_tokens?: number };
  const create = (request: Request) => anthropic.messages.create({ ...cold, ...request });
  const stream = (request: Request) => anthropic.messages.stream({ ...cold, ...request }).finalMessage();
  const textOf = ({ content }: Anthropic.Message) =>
    content.map((block) => (block.type === "text" ? block.text : "")).join("");
  const inputOf = ({ usage }: Anthropic.Message) => usage.input_tokens + (usage.cache_read_input_tokens ?? 0);

  it("returns the text, the usage and the price of chat for the same request, streamed or not", async () => {
    // Evaluated before, so that both find the same prompt in the cache.
    const ask = () => openai.chat.completions.create({ model, messages: [question], ...cold });
    await ask();
    const chat = await ask();
    const price = tasks.settled();
    const request = { model, messages: [question] };
    for (const message of [await create(request), await stream(request)]) {
      expect(textOf(message)).toBe(chat.choices[0]?.message.content);
      expect(textOf(message).length).toBeGreaterThan(3);
      expect([inputOf(message), message.usage.output_tokens]).toEqual([
        chat.usage?.prompt_tokens,
        chat.usage?.completion_tokens,
      ]);
      expect(message.usage.cache_read_input_tokens).toBe(chat.usage?.prompt_tokens_details?.cached_tokens);
      expect(tasks.settled()).toBe(price);
    }
    expect(price).toBeGreaterThan(0n);
  });

  it.each<[string, Omit<Anthropic.MessageCountTokensParams, "model">]>([
    ["one message", { messages: [question] }],
    ["a system prompt in blocks", { system: [{ type: "text", text: "Be brief." }], messages: [question] }],
    ["tools", { messages: [question], tools: [weather] }],
    ["tools that are not to be used", { messages: [question], tools: [weather], tool_choice: { type: "none" } }],
    ["the beginning of the reply", { messages: [question, { role: "assistant", content: "One, two" }] }],
    [
      "calls and their results",
      {
        tools: [weather],
        messages: [
          question,
          {
            role: "assistant",
            content: [{ type: "tool_use", id: "t1", name: "get_weather", input: { city: "Rome" } }],
          },
          { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: "21 C" }] },
        ],
      },
    ],
    ["text beyond ASCII", { messages: [{ role: "user", content: "Grüße, 世界 \u{1F30D} <|im_end|>" }] }],
  ])("counts the input tokens that it bills: %s", async (_name, prompt) => {
    const { input_tokens: counted } = await anthropic.messages.countTokens({ model, ...prompt });
    const message = await create({ model, ...prompt, max_tokens: 1 });
    expect(counted).toBe(inputOf(message));
    expect(counted).toBeGreaterThan(5);
  });

  it("names the stop sequence that ended a message, streamed or not", async () => {
    const request = { model, messages: [question], max_tokens: 64 };
    const text = textOf(await create(request));
    const stop = text.slice(3, 7);
    const stopped = { ...request, stop_sequences: ["never generated", stop] };
    for (const message of [await create(stopped), await stream(stopped)])
      expect([message.stop_reason, message.stop_sequence, textOf(message)]).toEqual([
        "stop_sequence",
        stop,
        text.slice(0, text.indexOf(stop)),
      ]);
    const short = await create({ ...request, max_tokens: 2 });
    expect([short.stop_reason, short.stop_sequence]).toEqual(["max_tokens", null]);
  });

  it("calls the tool that a request demands", async () => {
    const message = await create({
      ...{ model, messages: [question], max_tokens: 100 },
      tools: [weather],
      tool_choice: { type: "tool", name: "get_weather" },
    });
    expect(message.stop_reason).toBe("tool_use");
    expect(message.content).toMatchObject([
      { type: "tool_use", name: "get_weather", input: { city: expect.any(String) } },
    ]);
  });
});
