import { describe, expect, it } from "vitest";
import type { MessageBody } from "../../../../../control-plane/http/inference/messages/message-request-schemas.ts";
import { nativeMessage } from "../../../../../control-plane/http/inference/messages/native-message.ts";
import { nativeResponse } from "../../../../../control-plane/http/inference/responses/native-response.ts";
import type {
  ResponseItem,
  ResponseRequest,
} from "../../../../../control-plane/http/inference/responses/responses-schemas.ts";

const user: ResponseItem = { role: "user", content: "Hi" };
const tool = { type: "function", name: "run", parameters: { type: "object" } };
const response = (change: Partial<ResponseRequest>, items: readonly ResponseItem[] = [user]) =>
  nativeResponse({ model: "m", ...change }, items);
const message = (change: Partial<MessageBody>) =>
  nativeMessage({ model: "m", max_tokens: 8, messages: [{ role: "user", content: "Hi" }], ...change } as MessageBody);

describe("a response in its own format", () => {
  it("has the input as items, and nothing that an engine does not need", () => {
    const native = response({
      instructions: "Be brief.",
      temperature: 0,
      metadata: { a: "b" },
      user: "u",
      store: true,
    });
    expect(native).toEqual({
      format: "responses",
      needs: ["responses"],
      fields: {
        input: [{ type: "message", role: "user", content: "Hi" }],
        instructions: "Be brief.",
        temperature: 0,
        store: false,
      },
    });
  });

  it("names what an engine must be able to do", () => {
    expect(response({ stream: true, tools: [tool] })?.needs).toEqual([
      "responses",
      "responses_stream",
      "responses_tools",
    ]);
    const call: ResponseItem = { type: "function_call", call_id: "c", name: "run", arguments: "{}" };
    const output: ResponseItem = { type: "function_call_output", call_id: "c", output: "1" };
    expect(response({}, [user, call, output])?.needs).toEqual(["responses", "responses_tools"]);
  });

  it.each<[string, Partial<ResponseRequest>, (readonly ResponseItem[])?]>([
    ["a run in the background", { background: true, store: true }],
    ["truncation", { truncation: "auto" }],
    ["sealed reasoning", { include: ["reasoning.encrypted_content"] }],
    ["probabilities", { top_logprobs: 2 }],
    ["an effort", { reasoning: { effort: "low" } }],
    ["a schema", { text: { format: { type: "json_schema", name: "a", schema: {} } } }],
    ["a custom tool", { tools: [{ type: "custom", name: "run" }] }],
    ["a chosen tool", { tools: [tool], tool_choice: { type: "function", name: "run" } }],
    ["reasoning", {}, [{ type: "reasoning", summary: [], encrypted_content: "a" }, user]],
    ["a file", {}, [{ role: "user", content: [{ type: "input_file", file_data: "data:text/plain;base64,AA==" }] }]],
    ["a developer", {}, [{ role: "developer", content: "a" }, user]],
    ["a second instruction", { instructions: "a" }, [{ role: "system", content: "b" }, user]],
    ["a turn in two parts", {}, [user, { role: "assistant", content: "a" }, { role: "assistant", content: "b" }]],
    ["a tool of a namespace", {}, [{ type: "function_call", namespace: "n", call_id: "c", name: "r", arguments: "" }]],
  ])("is translated: %s", (_name, change, items) => {
    expect(response(change, items)).toBeUndefined();
  });
});

describe("a message in its own format", () => {
  it("has the blocks without marks of the client", () => {
    const marked = (text: string) => ({ type: "text" as const, text, cache_control: { type: "ephemeral" } });
    const native = message({
      system: [marked("Be brief.")],
      messages: [{ role: "user", content: [marked("Hi")] }],
      metadata: { user_id: "u" },
      stop_sequences: ["a"],
      top_k: 4,
    } as Partial<MessageBody>);
    expect(native).toEqual({
      format: "messages",
      needs: ["messages"],
      fields: {
        messages: [{ role: "user", content: "Hi" }],
        system: "Be brief.",
        stop_sequences: ["a"],
        top_k: 4,
      },
    });
  });

  it("needs tools for calls and their results", () => {
    const native = message({
      messages: [
        { role: "user", content: "Hi" },
        { role: "assistant", content: [{ type: "tool_use", id: "t", name: "run", input: { a: 1 } }] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "t", content: [{ type: "text", text: "1" }] }] },
      ],
    });
    expect(native?.needs).toEqual(["messages", "messages_tools"]);
    expect(native?.fields["messages"]).toEqual([
      { role: "user", content: "Hi" },
      { role: "assistant", content: [{ type: "tool_use", id: "t", name: "run", input: { a: 1 } }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "t", content: "1" }] },
    ]);
  });

  it.each<[string, Partial<MessageBody>]>([
    ["a stream", { stream: true }],
    ["thinking", { thinking: { type: "enabled", budget_tokens: 2_048 } }],
    ["an effort", { output_config: { effort: "low" } }],
    ["a format", { output_format: { type: "json_schema", schema: {} } }],
    ["no tool", { tool_choice: { type: "none" } }],
    ["one tool", { tool_choice: { type: "tool", name: "run" } }],
    ["one call at a time", { tool_choice: { type: "auto", disable_parallel_tool_use: true } }],
    [
      "a beginning of the reply",
      {
        messages: [
          { role: "user", content: "a" },
          { role: "assistant", content: "b" },
        ],
      },
    ],
    [
      "two messages of one role",
      {
        messages: [
          { role: "user", content: "a" },
          { role: "user", content: "b" },
        ],
      },
    ],
    ["a prompt that llama.cpp changes", { system: "x-anthropic-billing-header: cch=12345;" }],
    [
      "a system prompt in two blocks",
      {
        system: [
          { type: "text", text: "a" },
          { type: "text", text: "b" },
        ],
      },
    ],
    [
      "sealed thinking",
      {
        messages: [
          { role: "user", content: "a" },
          { role: "assistant", content: [{ type: "thinking", thinking: "", signature: "stoker1.a" }] },
          { role: "user", content: "b" },
        ],
      },
    ],
    [
      "a document",
      { messages: [{ role: "user", content: [{ type: "document", source: { type: "text", data: "a" } }] }] },
    ],
    [
      "a failed tool",
      { messages: [{ role: "user", content: [{ type: "tool_result", tool_use_id: "t", is_error: true }] }] },
    ],
  ])("is translated: %s", (_name, change) => {
    expect(message(change)).toBeUndefined();
  });
});
