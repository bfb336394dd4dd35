// The forms of Mistral: [TOOL_CALLS][{"name": .., "arguments": {..}}, ..] up to its seventh tokeniser, later
// [TOOL_CALLS]name[ARGS]{..} for each call, with or without [CALL_ID]. https://docs.mistral.ai, mistral-common
import { literal } from "../grammar/grammar-rules.ts";
import { callGrammar } from "./call-grammar.ts";
import { ListedCallsParser } from "./listed-calls.ts";
import type { ToolFormat } from "./tool-format.ts";

export const mistral: ToolFormat = {
  name: "mistral",
  grammar: (tools, { maxCalls }) =>
    callGrammar(tools, maxCalls, {
      lead: "[TOOL_CALLS][",
      call: (name, parameters) => `${literal(`{"name": ${JSON.stringify(name)}, "arguments": `)} ${parameters} "}"`,
      separator: ", ",
      end: "]",
    }),
  parser: () => new ListedCallsParser({ begin: ["[TOOL_CALLS]"], named: { id: "[CALL_ID]", args: "[ARGS]" } }),
};
