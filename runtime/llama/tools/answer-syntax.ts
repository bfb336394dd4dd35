// Chooses the syntax of a model's answers, by its chat template or the deployment's setting, and reads one answer in it.
import { deepseek } from "./deepseek.ts";
import { harmonyTools } from "./harmony.ts";
import { hermes } from "./hermes.ts";
import { granite, mistral } from "./listed-calls.ts";
import { llama3 } from "./llama3.ts";
import { type ReasoningName, reasoningParser } from "./reasoning.ts";
import type { ToolCallParser, ToolEvent, ToolFormat } from "./tool-format.ts";

export const toolFormats: Readonly<Record<string, ToolFormat>> = {
  hermes,
  llama3,
  mistral,
  deepseek,
  granite,
  "gpt-oss": harmonyTools,
};

/** Marks that a template writes itself before calls of earlier turns; Hermes is what most others follow. */
const toolMarks: readonly (readonly [mark: string, format: ToolFormat])[] = [
  ["<|channel|>", harmonyTools],
  ["tool▁calls▁begin", deepseek],
  ["[TOOL_CALLS]", mistral],
  ["<|tool_call|>", granite],
  ["<tool_call>[", granite],
  ["<tool_call>", hermes],
  ["<|python_tag|>", llama3],
  ["<|start_header_id|>", llama3],
];

export function toolFormatOf(template: string): ToolFormat {
  return toolMarks.find(([mark]) => template.includes(mark))?.[1] ?? hermes;
}

const reasoningMarks: readonly (readonly [mark: string, name: ReasoningName])[] = [
  ["<|channel|>", "gpt-oss"],
  ["[THINK]", "mistral"],
  ["thought process", "granite"],
  ["<think>", "think"],
  ["</think>", "think"],
];

export function reasoningOf(template: string): ReasoningName | undefined {
  return reasoningMarks.find(([mark]) => template.includes(mark))?.[1];
}

/** Undefined where there is nothing to read: all of it is text. */
export function answerReader(
  reasoning: { readonly name: ReasoningName; readonly isOpen: boolean } | undefined,
  tools: ToolFormat | undefined,
): ToolCallParser | undefined {
  const calls = tools?.parser();
  if (!reasoning) return calls;
  const thoughts = reasoningParser(reasoning.name, reasoning.isOpen);
  return calls ? bothOf(thoughts, calls) : thoughts;
}

/** Calls occur in the answer, never in the reasoning. */
function bothOf(thoughts: ToolCallParser, calls: ToolCallParser): ToolCallParser {
  const read = (event: ToolEvent) => (event.kind === "text" ? calls.push(event.text) : [event]);
  return {
    push: (text) => thoughts.push(text).flatMap(read),
    end: () => [...thoughts.end().flatMap(read), ...calls.end()],
  };
}
