// The grammar that every format shares: one of the tools, several of them between a lead and an end.
import { GrammarRules, literal } from "../grammar/grammar-rules.ts";
import * as json from "../grammar/json-primitives.ts";
import { schemaExpression } from "../grammar/json-schema.ts";
import type { CallForm, ToolDefinition } from "./tool-format.ts";

/** GBNF in which only calls of these tools fit. Throws UnsupportedConstraint. */
export function callGrammar(tools: readonly ToolDefinition[], maxCalls: number, form: CallForm): string {
  const rules = new GrammarRules();
  const calls = tools.map((tool) => rules.add(`call-${tool.name}`, form.call(tool.name, parametersOf(rules, tool))));
  const call = rules.add("tool-call", `(${calls.join(" | ")})`);
  const { separator } = form;
  const more = maxCalls > 1 && separator !== undefined ? ` (${literal(separator)} ${call}){0,${maxCalls - 1}}` : "";
  const [lead, end] = [form.lead ? `${literal(form.lead)} ` : "", form.end ? ` ${literal(form.end)}` : ""];
  return rules.grammar(`${lead}${call}${more}${end}`);
}

function parametersOf(rules: GrammarRules, tool: ToolDefinition): string {
  const schema = tool.parameters ?? {};
  const isEmpty = typeof schema === "object" && Object.keys(schema).length === 0;
  return isEmpty ? json.object(rules) : schemaExpression(rules, { type: "object", ...schema });
}
