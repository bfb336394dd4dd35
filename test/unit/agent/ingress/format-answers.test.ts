import { describe, expect, it } from "vitest";
import { chatAnswer } from "../../../../agent/ingress/format-answers.ts";
import type { ApiFormat } from "../../../../proto/api-formats.ts";

// biome-ignore lint/suspicious/noExplicitAny: replies are read field by field.
function chat(format: ApiFormat, body: unknown, maxTokens = 50): any {
  const read = chatAnswer(format, Buffer.from(typeof body === "string" ? body : JSON.stringify(body)), maxTokens);
  return read && JSON.parse(read.toString());
}

// Replies of llama.cpp's server, shortened.
const response = {
  id: "resp_1",
  object: "response",
  status: "completed",
  output: [
    { type: "reasoning", content: [{ type: "reasoning_text", text: "Hm." }], summary: [], encrypted_content: "" },
    { type: "message", role: "assistant", content: [{ type: "output_text", text: "1. 1\n2. ", annotations: [] }] },
    { type: "function_call", call_id: "call_a", name: "run", arguments: '{"n":12345678901234567890}' },
  ],
  usage: { input_tokens: 36, output_tokens: 8, total_tokens: 44, input_tokens_details: { cached_tokens: 35 } },
};
const message = {
  id: "chatcmpl-1",
  type: "message",
  role: "assistant",
  content: [{ type: "text", text: "1. 1" }],
  stop_reason: "end_turn",
  stop_sequence: "\n",
  usage: { cache_read_input_tokens: 35, input_tokens: 1, output_tokens: 8 },
};

describe("a reply in another format", () => {
  it("becomes a chat: Responses", () => {
    const { choices, usage } = chat("responses", response);
    expect(choices).toEqual([
      {
        index: 0,
        message: {
          role: "assistant",
          content: "1. 1\n2. ",
          reasoning_content: "Hm.",
          tool_calls: [
            { id: "call_a", type: "function", function: { name: "run", arguments: '{"n":12345678901234567890}' } },
          ],
        },
        finish_reason: "tool_calls",
      },
    ]);
    expect(usage).toMatchObject({
      prompt_tokens: 36,
      completion_tokens: 8,
      prompt_tokens_details: { cached_tokens: 35 },
    });
  });

  it("becomes a chat: Messages, with the cached tokens among those of the prompt", () => {
    const { choices, usage } = chat("messages", message);
    expect(choices).toEqual([
      { index: 0, message: { role: "assistant", content: "1. 1" }, finish_reason: "stop", stop_reason: "\n" },
    ]);
    expect(usage).toMatchObject({
      prompt_tokens: 36,
      completion_tokens: 8,
      prompt_tokens_details: { cached_tokens: 35 },
    });
  });

  it("keeps the digits of a call's integers", () => {
    const body = JSON.stringify({ ...message, content: [] }).replace(
      '"content":[]',
      '"content":[{"type":"tool_use","id":"t","name":"run","input":{"n":12345678901234567890}}]',
    );
    const [choice] = chat("messages", body).choices;
    expect(choice.message.tool_calls[0].function.arguments).toBe('{"n":12345678901234567890}');
  });

  it("is cut at the limit although the engine calls it complete", () => {
    expect(chat("responses", { ...response, output: [] }, 8).choices[0].finish_reason).toBe("length");
  });

  it.each<[string, ApiFormat, unknown]>([
    ["no JSON", "responses", "{"],
    ["no object", "messages", "[]"],
    ["a failed response", "responses", { ...response, status: "failed", error: { message: "broken" } }],
    ["a response that runs", "responses", { ...response, status: "in_progress" }],
    ["a response without output", "responses", { ...response, output: undefined }],
    ["a message without an end", "messages", { ...message, stop_reason: null }],
    ["a chat", "messages", { object: "chat.completion", choices: [] }],
    ["an error", "messages", { type: "error", error: { message: "broken" } }],
    ["nothing but nesting", "messages", `${"[".repeat(200_000)}${"]".repeat(200_000)}`],
    ["more than 1 MiB", "messages", { ...message, content: [{ type: "text", text: "a".repeat(1024 * 1024) }] }],
    [
      "integers that no double holds, in more than 64 KiB",
      "messages",
      JSON.stringify({ ...message, content: [] }).replace(
        '"content":[]',
        `"content":[{"type":"tool_use","id":"t","name":"run","input":[1${",12345678901234567890".repeat(4_000)}]}]`,
      ),
    ],
  ])("is none: %s", (_name, format, body) => {
    expect(chat(format, body)).toBeUndefined();
  });

  it.each([["x"], [{}], [-1], [1.5], [[[1]]]])("has no figures that are none: %j", (figure) => {
    const { usage } = chat("messages", { ...message, usage: { input_tokens: figure, output_tokens: figure } });
    const counts = [usage.prompt_tokens, usage.completion_tokens];
    expect(counts.every((one) => !Number.isSafeInteger(one) || one < 0)).toBe(true);
  });
});
