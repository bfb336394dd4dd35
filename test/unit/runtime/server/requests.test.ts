import { describe, expect, it } from "vitest";
import { readChatRequest } from "../../../../runtime/server/chat-request.ts";
import { parseJson } from "../../../../runtime/server/read-body.ts";
import { RequestError } from "../../../../runtime/server/request-error.ts";
import { readCompletionRequest } from "../../../../runtime/server/run-completion.ts";

const completion = { model: "m", prompt: "p" };
const chat = { model: "m", messages: [{ role: "user", content: "hi" }] };

function refusal(read: () => unknown): [number, string | null] {
  try {
    read();
  } catch (error) {
    if (error instanceof RequestError) return [error.status, error.param];
    throw error;
  }
  throw new Error("was not refused");
}

describe("a completion request", () => {
  it("gets the contract's defaults, null standing for absent, unknown fields ignored", () => {
    const request = readCompletionRequest({ ...completion, max_tokens: null, stop: null, surprise: 1 });
    expect(request).toMatchObject({ choices: 1, stream: false, maxTokens: undefined, stops: [], echo: false });
    expect(request.sampling).toEqual({
      temperature: 1,
      topP: 1,
      minP: 0,
      topK: 0,
      presencePenalty: 0,
      frequencyPenalty: 0,
      repetitionPenalty: 1,
      seed: undefined,
    });
  });

  it.each([
    ["temperature", 2.1],
    ["temperature", "1"],
    ["top_p", 0],
    ["min_p", 1.1],
    ["top_k", -1],
    ["n", 5],
    ["n", 1.5],
    ["max_tokens", 0],
    ["max_tokens", 1_000_001],
    ["presence_penalty", -2.1],
    ["repetition_penalty", 0],
    ["stop", Array(17).fill("x")],
    ["stop", 5],
    ["logprobs", true],
    ["prompt", ["a"]],
    ["seed", 2n ** 64n],
    ["seed", 1.5],
    ["stop_token_ids", ["a"]],
  ])("is refused with 422 for %s = %s", (field, value) => {
    expect(refusal(() => readCompletionRequest({ ...completion, [field]: value }))).toEqual([422, field]);
  });

  it("names a missing model or prompt", () => {
    expect(refusal(() => readCompletionRequest({ prompt: "p" }))).toEqual([422, "model"]);
    expect(refusal(() => readCompletionRequest({ ...completion, data: { image: ["data:"] } }))).toEqual([
      400,
      "data.image",
    ]);
    expect(refusal(() => readCompletionRequest({ model: "m" }))).toEqual([422, "prompt"]);
  });

  it("reads a seed beyond 2^53 exactly and folds it to 32 bits, small ones unchanged", () => {
    const seedOf = (text: string) =>
      readCompletionRequest(parseJson(Buffer.from(`{"model":"m","prompt":"p","seed":${text}}`)) as object as never)
        .sampling.seed;
    expect(seedOf("42")).toBe(42);
    expect(seedOf("9007199254740993")).not.toBe(seedOf("9007199254740992"));
    for (const text of ["18446744073709551615", "-9223372036854775808"]) expect(seedOf(text)).toBeLessThan(2 ** 32);
  });
});

describe("a chat request", () => {
  it("joins text parts, takes developer as system and parses tool arguments for the template", () => {
    const request = readChatRequest({
      model: "m",
      messages: [
        {
          role: "developer",
          content: [
            { type: "text", text: "a" },
            { type: "text", text: "b" },
          ],
        },
        { role: "user", content: "x" },
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: '{"a":1}' } }],
        },
        { role: "tool", tool_call_id: "1", content: "ok" },
      ],
    });
    expect(request.messages[0]).toEqual({ role: "system", content: "a\nb" });
    expect(request.messages[2]).toMatchObject({ content: "", tool_calls: [{ function: { arguments: { a: 1 } } }] });
    expect(request.continuesLastMessage).toBe(false);
  });

  it("continues a last assistant message", () => {
    const messages = [...chat.messages, { role: "assistant", content: "Well" }];
    expect(readChatRequest({ ...chat, messages }).continuesLastMessage).toBe(true);
    expect(refusal(() => readChatRequest({ ...chat, continue_final_message: true }))).toEqual([
      422,
      "continue_final_message",
    ]);
  });

  it("refuses parts of other kinds by name, and tool choices that cannot be", () => {
    const messages = [{ role: "user", content: [{ type: "text", text: "a" }, { type: "image_url" }] }];
    expect(refusal(() => readChatRequest({ ...chat, messages }))).toEqual([400, "messages.0.content.1"]);
    expect(refusal(() => readChatRequest({ ...chat, tool_choice: "required" }))).toEqual([422, "tool_choice"]);
    const tools = [{ type: "function", function: { name: "f" } }];
    const tool_choice = { type: "function", function: { name: "g" } };
    expect(refusal(() => readChatRequest({ ...chat, tools, tool_choice }))).toEqual([422, "tool_choice"]);
    expect(readChatRequest({ ...chat, tools }).toolChoice).toEqual({ kind: "auto" });
  });

  it.each(["constructor", "toString", "__proto__"])("knows no role, effort or time called %s", (name) => {
    const messages = [{ role: name, content: "hi" }];
    expect(refusal(() => readChatRequest({ ...chat, messages }))).toEqual([422, "messages.0.role"]);
    expect(refusal(() => readChatRequest({ ...chat, reasoning_effort: name }))).toEqual([422, "reasoning_effort"]);
    const prompt_cache_options = { ttl: name };
    expect(refusal(() => readChatRequest({ ...chat, prompt_cache_options }))).toEqual([
      422,
      "prompt_cache_options.ttl",
    ]);
  });

  it("reads the response format of plain prompts as that of chats", () => {
    const response_format = { type: "json_schema", json_schema: { name: "one", schema: { type: "object" } } };
    const constraint = { kind: "json-schema", schema: { type: "object" } };
    expect(readChatRequest({ ...chat, response_format }).constraint).toEqual(constraint);
    expect(readCompletionRequest({ ...completion, response_format }).constraint).toEqual(constraint);
    const pattern = { type: "regex", regex: "((a{200}){200}){200}" };
    expect(refusal(() => readCompletionRequest({ ...completion, response_format: pattern }))).toEqual([
      400,
      "response_format",
    ]);
  });

  it("never ignores a response format", () => {
    expect(refusal(() => readChatRequest({ ...chat, response_format: { type: "xml" } }))).toEqual([
      400,
      "response_format",
    ]);
    expect(refusal(() => readChatRequest({ ...chat, top_logprobs: 3 }))).toEqual([422, "top_logprobs"]);
  });
});
