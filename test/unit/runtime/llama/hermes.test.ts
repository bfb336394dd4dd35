import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { hermes } from "../../../../runtime/llama/tools/hermes.ts";

interface Read {
  text: string;
  calls: { name: string; args: string }[];
}

function read(text: string, size: number): Read {
  const parser = hermes.parser();
  const result: Read = { text: "", calls: [] };
  const take = (events: ReturnType<typeof parser.push>) => {
    for (const event of events) {
      if (event.kind === "text") result.text += event.text;
      else if (event.kind === "call") result.calls[event.index] = { name: event.name, args: "" };
      else if (event.kind === "arguments") (result.calls[event.index] as { args: string }).args += event.text;
    }
  };
  for (let at = 0; at < text.length; at += size) take(parser.push(text.slice(at, at + size)));
  take(parser.end());
  return result;
}

const call = (name: string, args: unknown) => `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`;

describe("the reader of Hermes tool calls", () => {
  it.each([1, 2, 3, 7, 1000])("reads text and two calls in pieces of %i characters", (size) => {
    const text = `I look.\n${call("a", { s: 'x"}] </tool', n: [1, { d: 2 }] })}\n${call("b", {})}`;
    expect(read(text, size)).toEqual({
      text: "I look.",
      calls: [
        { name: "a", args: '{"s":"x\\"}] </tool","n":[1,{"d":2}]}' },
        { name: "b", args: "{}" },
      ],
    });
  });

  it("reads any arguments as they were written, one character at a time", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (args) => {
        fc.pre(!JSON.stringify(args).includes("</tool_call>"));
        expect(read(call("f", args), 1).calls).toEqual([{ name: "f", args: JSON.stringify(args) }]);
      }),
    );
  });

  it("waits for a name that comes last and unwraps arguments written as a string", () => {
    expect(read('<tool_call>{"arguments": {"a": 1}, "name": "f"}</tool_call>', 1).calls).toEqual([
      { name: "f", args: '{"a": 1}' },
    ]);
    expect(read('<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>', 1).calls).toEqual([
      { name: "f", args: '{"a": 1}' },
    ]);
  });

  it("takes a call whose closing tag never came, and no arguments as an empty object", () => {
    expect(read('<tool_call>{"name": "f", "arguments": {"a": 1}}', 1).calls).toEqual([{ name: "f", args: '{"a": 1}' }]);
    expect(read('<tool_call>{"name": "f"}</tool_call>', 1).calls).toEqual([{ name: "f", args: "{}" }]);
  });

  it("shows what was no call as the text it was", () => {
    const text = "a <tool_call>nonsense</tool_call> b <tool";
    expect(read(text, 1)).toEqual({ text, calls: [] });
  });
});
