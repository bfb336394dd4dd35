import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { messageBody } from "../../../../control-plane/inference/message-body.ts";
import { faultOf } from "../../../fakes/anthropic-server.ts";

// biome-ignore lint/suspicious/noExplicitAny: bodies are read field by field.
const written = (fields: object, maxTokens = 4_096): any =>
  JSON.parse(messageBody({ messages: [{ role: "user", content: "hi" }], ...fields }, "m", maxTokens).toString());
const refusedField = (fields: object): string | undefined => {
  try {
    written(fields);
    return undefined;
  } catch (error) {
    return (error as { readonly param?: string }).param;
  }
};

interface Exchange {
  readonly question: string;
  readonly answer: string;
  readonly results: readonly { readonly input: Record<string, unknown>; readonly result: string }[];
  readonly picture: boolean;
}

const text = fc.string({ minLength: 1, maxLength: 12, unit: "grapheme" });
const exchange: fc.Arbitrary<Exchange> = fc.record({
  question: text,
  answer: text,
  results: fc.array(fc.record({ input: fc.dictionary(text, fc.jsonValue({ maxDepth: 1 })), result: text }), {
    maxLength: 3,
  }),
  picture: fc.boolean(),
});

/** A chat as clients of OpenAI write it. */
function chatOf(exchanges: readonly Exchange[], system: string, last: string): object[] {
  const turns = exchanges.flatMap(({ question, answer, results, picture }, n) => {
    const url = "data:image/png;base64,AAAA";
    const content = picture
      ? [
          { type: "text", text: question },
          { type: "image_url", image_url: { url } },
        ]
      : question;
    const calls = results.map(({ input }, i) => ({
      id: `call:${n}.${i}`,
      type: "function",
      function: { name: "run", arguments: JSON.stringify(input) },
    }));
    return [
      { role: "user", content },
      { role: "assistant", content: answer, ...(calls.length > 0 ? { tool_calls: calls } : {}) },
      ...results.map(({ result }, i) => ({ role: "tool", tool_call_id: `call:${n}.${i}`, content: result })),
    ];
  });
  return [{ role: "system", content: system }, ...turns, { role: "user", content: last }];
}

// biome-ignore lint/suspicious/noExplicitAny: blocks are read field by field.
type Read = any;

describe("a chat as a message", () => {
  it("keeps every text, picture, call and result in order, within the published rules", () => {
    fc.assert(
      fc.property(fc.array(exchange, { maxLength: 4 }), text, text, (exchanges, system, last) => {
        const body = written({ messages: chatOf(exchanges, system, last) });
        expect(faultOf(body, "m")).toBeUndefined();
        expect(body.system).toBe(system);
        const blocks: Read[] = body.messages.flatMap(({ content }: Read) => content);
        const said = blocks.map((block) => block.text ?? block.input ?? block.content ?? block.source.data);
        const meant = exchanges.flatMap(({ question, answer, results, picture }) => [
          question,
          ...(picture ? ["AAAA"] : []),
          answer,
          ...results.map(({ input }) => JSON.parse(JSON.stringify(input))),
          ...results.map(({ result }) => result),
        ]);
        expect(said).toEqual([...meant, last]);
      }),
      { numRuns: 200 },
    );
  });

  it("keeps the digits of long integers in arguments", () => {
    const call = { id: "a", type: "function", function: { name: "run", arguments: '{"n":12345678901234567890}' } };
    const messages = [
      { role: "user", content: "hi" },
      { role: "assistant", content: null, tool_calls: [call] },
    ];
    expect(messageBody({ messages }, "m", 10).toString()).toContain('"input":{"n":12345678901234567890}');
  });

  it.each([
    ["n", { n: 2 }],
    ["logprobs", { logprobs: true }],
    ["seed", { seed: 0 }],
    ["presence_penalty", { presence_penalty: 0.5 }],
    ["frequency_penalty", { frequency_penalty: -1 }],
    ["repetition_penalty", { repetition_penalty: 1.1 }],
    ["min_p", { min_p: 0.1 }],
    ["stop_token_ids", { stop_token_ids: [1] }],
    ["ignore_eos", { ignore_eos: true }],
    ["response_format", { response_format: { type: "json_object" } }],
    [
      "messages.0.content.0.type",
      { messages: [{ role: "user", content: [{ type: "input_audio", input_audio: { data: "", format: "wav" } }] }] },
    ],
    [
      "messages.0.content.0.image_url.url",
      { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "data:image/png,x" } }] }] },
    ],
    [
      "messages.0.tool_calls.0.function.arguments",
      { messages: [{ role: "assistant", tool_calls: [{ id: "a", function: { name: "run", arguments: "[1" } }] }] },
    ],
  ])("names %s, which it cannot express", (field, fields) => expect(refusedField(fields)).toBe(field));

  it("takes values that change nothing", () =>
    expect(
      refusedField({
        n: 1,
        logprobs: false,
        seed: null,
        presence_penalty: 0,
        repetition_penalty: 1,
        stop_token_ids: [],
      }),
    ).toBeUndefined());

  it("writes tools, the choice among them and one call at a time", () => {
    const tools = [
      { type: "function", function: { name: "run", description: "Runs", parameters: { properties: {} } } },
    ];
    expect(written({ tools, tool_choice: "required", parallel_tool_calls: false })).toMatchObject({
      tools: [{ name: "run", description: "Runs", input_schema: { type: "object", properties: {} } }],
      tool_choice: { type: "any", disable_parallel_tool_use: true },
    });
    const named = { type: "function", function: { name: "run" } };
    expect(written({ tools, tool_choice: named }).tool_choice).toEqual({ type: "tool", name: "run" });
    expect(written({ tools }).tool_choice).toBeUndefined();
    expect(written({ tools, tool_choice: "none", parallel_tool_calls: false }).tool_choice).toEqual({ type: "none" });
  });

  it("clamps temperature to 1, and drops it with thinking", () => {
    expect(written({ temperature: 1.7 }).temperature).toBe(1);
    const thinking = written({ temperature: 0.2, reasoning_effort: "high" });
    expect([thinking.temperature, thinking.thinking]).toEqual([undefined, { type: "enabled", budget_tokens: 2_048 }]);
    expect(written({ reasoning_effort: "high" }, 1_000).thinking).toBeUndefined();
    expect(written({}).thinking).toBeUndefined();
    expect(written({ reasoning_effort: "none", temperature: 0.2 })).toMatchObject({
      thinking: { type: "disabled" },
      temperature: 0.2,
    });
  });

  it("writes stops, the end user and a schema of the reply", () => {
    const schema = { type: "object" };
    expect(
      written({ stop: "END", user: "ada", response_format: { type: "json_schema", json_schema: { schema } } }),
    ).toMatchObject({
      stop_sequences: ["END"],
      metadata: { user_id: "ada" },
      output_config: { format: { type: "json_schema", schema } },
    });
  });
});
