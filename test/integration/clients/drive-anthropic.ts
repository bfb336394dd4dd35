// The steps of drive_anthropic.py with the official Anthropic client of npm: what came of each.
import Anthropic, { APIError } from "@anthropic-ai/sdk";

const inputOf = ({ usage }: Anthropic.Message) => usage.input_tokens + (usage.cache_read_input_tokens ?? 0);
const textOf = ({ content }: Anthropic.Message) =>
  content.map((block) => (block.type === "text" ? block.text : "")).join("");

export async function driveAnthropic(
  server: { readonly url: string; readonly apiKey: string },
  { CHAT }: { readonly CHAT: string },
): Promise<Record<string, unknown>> {
  const client = new Anthropic({ baseURL: server.url, apiKey: server.apiKey, maxRetries: 0, timeout: 60_000 });
  const asked: Anthropic.MessageParam[] = [{ role: "user", content: "What is the answer?" }];
  const prompt = { model: CHAT, messages: asked };
  const request = { ...prompt, max_tokens: 16 };
  const reply = (message: Anthropic.Message, next: Anthropic.MessageParam["content"]) =>
    client.messages.create({
      ...request,
      messages: [
        ...asked,
        { role: "assistant", content: message.content as Anthropic.ContentBlockParam[] },
        { role: "user", content: next },
      ],
    });

  const { data: answer, response } = await client.messages.create(request).withResponse();
  const parts: string[] = [];
  const last = await client.messages
    .stream(request)
    .on("text", (text) => parts.push(text))
    .finalMessage();
  const stopped = await client.messages.create({ ...request, stop_sequences: [" is"] });

  const input_schema = { type: "object" as const, properties: { city: { type: "string" } }, required: ["city"] };
  const tools = [{ name: "weather", description: "The weather of a city", input_schema }];
  const called = await client.messages.create({ ...request, tools });
  const [use] = called.content;
  if (use?.type !== "tool_use") throw new Error(`no tool was called: ${JSON.stringify(called)}`);

  const thought = await client.messages.create({
    ...prompt,
    max_tokens: 2048,
    thinking: { type: "enabled", budget_tokens: 1024 },
  });
  const [thinking] = thought.content;

  const models: string[] = [];
  for await (const { id } of client.models.list({ limit: 2 })) models.push(id);
  const refusal = (call: Promise<unknown>) =>
    call.catch((error: unknown) => (error instanceof APIError ? [error.status, error.type] : error));
  return {
    message: [textOf(answer), answer.stop_reason, inputOf(answer), answer.usage.output_tokens],
    count: (await client.messages.countTokens(prompt)).input_tokens,
    stream: [parts, textOf(last), last.stop_reason, inputOf(last), last.usage.output_tokens],
    stopped: [textOf(stopped), stopped.stop_reason, stopped.stop_sequence],
    tool: [use.name, use.input, called.stop_reason],
    result: textOf(await reply(called, [{ type: "tool_result", tool_use_id: use.id, content: "21 C" }])),
    thinking: [thinking?.type === "thinking" && thinking.thinking, textOf(thought)],
    thought: textOf(await reply(thought, "Why?")),
    models: models.sort(),
    model: (await client.models.retrieve(CHAT)).display_name,
    limits: Number(response.headers.get("anthropic-ratelimit-requests-limit")) > 0,
    unknown: await refusal(client.messages.create({ ...request, model: "no/model" })),
    stranger: await refusal(client.withOptions({ apiKey: "stk_unknown" }).messages.create(request)),
  };
}
