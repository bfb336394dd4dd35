import Anthropic from "@anthropic-ai/sdk";
import { base, chat, key, polled, question, serve, weather } from "./driver.ts";

const client = new Anthropic({ baseURL: base, apiKey: key, maxRetries: 0, timeout: 60_000 });
const messages: Anthropic.MessageParam[] = [{ role: "user", content: question }];
const given = { model: chat, max_tokens: 1_000 };
const input_schema = { type: "object" as const, properties: { city: { type: "string" } }, required: ["city"] };
const tools = [{ name: "weather", description: "The weather", input_schema }];

const textOf = (message: Anthropic.Message): string =>
  message.content.map((block) => (block.type === "text" ? block.text : "")).join("");

async function tool(): Promise<string> {
  const called = await client.messages.create({ ...given, messages, tools });
  const [call] = called.content.filter((block) => block.type === "tool_use");
  if (!call) throw new Error("no tool was called");
  const content = weather(call.input as { city: string });
  const result: Anthropic.MessageParam = {
    role: "user",
    content: [{ type: "tool_result", tool_use_id: call.id, content }],
  };
  const turns = [...messages, { role: "assistant" as const, content: called.content }, result];
  return textOf(await client.messages.create({ ...given, messages: turns, tools }));
}

async function batch(): Promise<unknown> {
  const requests = [{ custom_id: "one", params: { ...given, messages } }];
  const { id } = await client.messages.batches.create({ requests });
  await polled(async () =>
    (await client.messages.batches.retrieve(id)).processing_status === "ended" ? true : undefined,
  );
  const found: unknown[] = [];
  for await (const { custom_id, result } of await client.messages.batches.results(id))
    found.push([custom_id, result.type === "succeeded" ? textOf(result.message) : result]);
  return found;
}

await serve({
  messages: async () => textOf(await client.messages.create({ ...given, messages })),
  "messages stream": async () => client.messages.stream({ ...given, messages }).finalText(),
  "messages tools": tool,
  "messages batch": batch,
  "messages count": async () => (await client.messages.countTokens({ model: chat, messages })).input_tokens,
});
