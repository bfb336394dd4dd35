import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { answerReader, reasoningOf, toolFormatOf, toolFormats } from "../../../../runtime/llama/tools/answer-syntax.ts";
import { opensReasoning, type ReasoningName } from "../../../../runtime/llama/tools/reasoning.ts";

interface Read {
  text?: string;
  reasoning?: string;
  calls?: { name: string; args: string }[];
}

interface Form {
  readonly tools?: string;
  readonly reasoning?: ReasoningName;
  readonly isOpen?: boolean;
}

function read({ tools, reasoning, isOpen = false }: Form, pieces: readonly string[]): Read {
  const reader = answerReader(
    reasoning && { name: reasoning, isOpen },
    tools === undefined ? undefined : toolFormats[tools],
  );
  if (!reader) throw new Error("nothing to read");
  const result: Read = {};
  for (const event of [...pieces.flatMap((piece) => reader.push(piece)), ...reader.end()]) {
    if (event.kind === "text") result.text = (result.text ?? "") + event.text;
    else if (event.kind === "reasoning") result.reasoning = (result.reasoning ?? "") + event.text;
    else if (event.kind === "call") {
      result.calls ??= [];
      result.calls[event.index] = { name: event.name, args: "" };
    } else (result.calls?.[event.index] as { args: string }).args += event.text;
  }
  return result;
}

const weather = (city: string) => ({ name: "get_weather", args: `{"city": "${city}"}` });
const json = (key: string, city: string) => `{"name": "get_weather", "${key}": {"city": "${city}"}}`;

/** Outputs as the makers of the models document them. */
const table: readonly (readonly [title: string, form: Form, output: string, expected: Read])[] = [
  [
    "Hermes and Qwen 2.5: two calls after text",
    { tools: "hermes" },
    `Let me look.\n<tool_call>\n${json("arguments", "Paris")}\n</tool_call>\n<tool_call>\n${json("arguments", "Rome")}\n</tool_call>`,
    { text: "Let me look.", calls: [weather("Paris"), weather("Rome")] },
  ],
  [
    "Qwen 3: reasoning, then a call",
    { tools: "hermes", reasoning: "think" },
    `<think>\nThe user asks for <tool_call> weather.\n</think>\n\n<tool_call>\n${json("arguments", "Paris")}\n</tool_call>`,
    { reasoning: "The user asks for <tool_call> weather.", calls: [weather("Paris")] },
  ],
  [
    "Qwen 3: an answer after an empty reasoning",
    { reasoning: "think" },
    "<think>\n\n</think>\n\nParis.",
    { text: "Paris." },
  ],
  ["an answer without reasoning", { reasoning: "think" }, "It is 3 < 4.\n", { text: "It is 3 < 4.\n" }],
  [
    "DeepSeek R1: the prompt opened the reasoning",
    { reasoning: "think", isOpen: true },
    "First\n\nsecond.\n</think>\n\nDone.\n\nYes.",
    { reasoning: "First\n\nsecond.", text: "Done.\n\nYes." },
  ],
  ["a reasoning that was cut", { reasoning: "think", isOpen: true }, "I wonder </thi", { reasoning: "I wonder </thi" }],
  [
    "a mark in the answer stays text",
    { reasoning: "think" },
    "Write <p></think> so.",
    { text: "Write <p></think> so." },
  ],
  [
    "Granite 3.3: thoughts and response in marks",
    { reasoning: "think" },
    "<think>Add them.</think><response>It is 4.</response>",
    { reasoning: "Add them.", text: "It is 4." },
  ],
  [
    "Granite 3.2: thoughts in words",
    { reasoning: "granite" },
    "Here is my thought process:\n\nAdd them.\n\nHere is my response:\n\nIt is 4.",
    { reasoning: "Add them.", text: "It is 4." },
  ],
  [
    "Granite 3.0: a list of calls",
    { tools: "granite" },
    `<|tool_call|>[${json("arguments", "Paris")}, ${json("arguments", "Rome")}]`,
    { calls: [weather("Paris"), weather("Rome")] },
  ],
  [
    "Granite 3.1: the other mark",
    { tools: "granite" },
    `<tool_call>[${json("arguments", "Paris")}]`,
    { calls: [weather("Paris")] },
  ],
  ["Llama 3.1: the answer is a call", { tools: "llama3" }, json("parameters", "Paris"), { calls: [weather("Paris")] }],
  [
    "Llama 3.2: behind the mark, two of them",
    { tools: "llama3" },
    `<|python_tag|>${json("parameters", "Paris")}; ${json("parameters", "Rome")}`,
    { calls: [weather("Paris"), weather("Rome")] },
  ],
  [
    "Llama 3.1: a built-in tool",
    { tools: "llama3" },
    '<|python_tag|>brave_search.call(query="weather (in) Paris")',
    { calls: [{ name: "brave_search", args: '{"query":"weather (in) Paris"}' }] },
  ],
  [
    "Llama 3: plain text with braces",
    { tools: "llama3" },
    'Use {"name": "x"} here.',
    { text: 'Use {"name": "x"} here.' },
  ],
  [
    "Llama 3: JSON that is no call",
    { tools: "llama3" },
    '{"answer": {"n": 4}} and more',
    { text: '{"answer": {"n": 4}} and more' },
  ],
  [
    "Mistral 7B v0.3: a list",
    { tools: "mistral" },
    `[TOOL_CALLS] [${json("arguments", "Paris")}, ${json("arguments", "Rome")}]`,
    { calls: [weather("Paris"), weather("Rome")] },
  ],
  [
    "Mistral Small 3.2: name and arguments",
    { tools: "mistral" },
    '[TOOL_CALLS]get_weather[CALL_ID]VvvODy9mT[ARGS]{"city": "Paris"}[TOOL_CALLS]get_weather[ARGS]{"city": "Rome"}',
    { calls: [weather("Paris"), weather("Rome")] },
  ],
  [
    "Magistral: reasoning, text, call",
    { tools: "mistral", reasoning: "mistral" },
    `[THINK]Hm, [1].[/THINK]I look.[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}`,
    { reasoning: "Hm, [1].", text: "I look.", calls: [weather("Paris")] },
  ],
  [
    "DeepSeek V3: fenced arguments",
    { tools: "deepseek" },
    'I look.\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{"city": "Paris"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{"city": "Rome"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    { text: "I look.", calls: [weather("Paris"), weather("Rome")] },
  ],
  [
    "DeepSeek V3.1: after reasoning",
    { tools: "deepseek", reasoning: "think", isOpen: true },
    'Two.</think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Paris"}<｜tool▁call▁end｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Rome"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    { reasoning: "Two.", calls: [weather("Paris"), weather("Rome")] },
  ],
  [
    "gpt-oss: analysis and final",
    { reasoning: "gpt-oss" },
    "<|channel|>analysis<|message|>Simple sum.<|end|><|start|>assistant<|channel|>final<|message|>2 + 2 = 4.<|return|>",
    { reasoning: "Simple sum.", text: "2 + 2 = 4." },
  ],
  [
    "gpt-oss: a call with its recipient behind the channel",
    { tools: "gpt-oss", reasoning: "gpt-oss" },
    '<|channel|>analysis<|message|>Need weather.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Paris"}<|call|>',
    { reasoning: "Need weather.", calls: [weather("Paris")] },
  ],
  [
    "gpt-oss: a preamble and a call with its recipient in the role",
    { tools: "gpt-oss", reasoning: "gpt-oss" },
    '<|channel|>commentary<|message|>I look.<|end|><|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>{"city": "Paris"}<|call|>',
    { text: "I look.", calls: [weather("Paris")] },
  ],
];

describe.each(table)("%s", (_, form, output, expected) => {
  it("is read whole and one character at a time", () => {
    expect(read(form, [output])).toEqual(expected);
    expect(read(form, [...output])).toEqual(expected);
  });

  it("is read however it is cut", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(output.length), { maxLength: 12 }), (cuts) => {
        const at = [0, ...cuts.sort((a, b) => a - b), output.length];
        expect(
          read(
            form,
            at.slice(1).map((end, i) => output.slice(at[i], end)),
          ),
        ).toEqual(expected);
      }),
      { numRuns: 60 },
    );
  });
});

describe("the form of a model", () => {
  it.each([
    ["{{ '<|start|>assistant<|channel|>final' }}", "gpt-oss", "gpt-oss"],
    ["{{ '<｜tool▁calls▁begin｜>' }} </think>", "deepseek", "think"],
    ["{{ '[TOOL_CALLS]' }}[THINK]", "mistral", "mistral"],
    ["{{ '<|tool_call|>' }} thought process", "granite", "granite"],
    ["{{ '<tool_call>' }}<think>", "hermes", "think"],
    ["<|start_header_id|> <|python_tag|>", "llama3", undefined],
    ["<|im_start|> {{ tools }}", "hermes", undefined],
  ])("is told by its chat template: %s", (template, tools, reasoning) => {
    expect(toolFormatOf(template).name).toBe(tools);
    expect(reasoningOf(template)).toBe(reasoning);
  });

  it("knows from the end of the prompt whether the reasoning has begun", () => {
    expect(opensReasoning("think", "<|Assistant|><think>\n")).toBe(true);
    expect(opensReasoning("think", "<think>\n\n</think>\n\n")).toBe(false);
  });
});
