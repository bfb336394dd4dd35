// The form of Granite 3: <|tool_call|>[{"name": .., "arguments": {..}}, ..], from 3.1 also written <tool_call>[..].
// https://www.ibm.com/granite/docs/models/granite/
import { literal } from "../grammar/grammar-rules.ts";
import { callGrammar } from "./call-grammar.ts";
import { ListedCallsParser } from "./listed-calls.ts";
import type { ToolFormat } from "./tool-format.ts";

export const granite: ToolFormat = {
  name: "granite",
  grammar: (tools, { maxCalls }) =>
    callGrammar(tools, maxCalls, {
      lead: "<|tool_call|>[",
      call: (name, parameters) => `${literal(`{"name": ${JSON.stringify(name)}, "arguments": `)} ${parameters} "}"`,
      separator: ", ",
      end: "]",
    }),
  parser: () => new ListedCallsParser({ begin: ["<|tool_call|>", "<tool_call>"] }),
};
