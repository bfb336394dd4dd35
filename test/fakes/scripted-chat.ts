// Replies of a scripted model: a function of the request, so that a client's whole session has one outcome.
//
// - a request with tools calls one, with arguments of its schema, and reports the tool's result in the next reply;
// - a request for a JSON schema is answered with a value of it;
// - a request to edit a file (editRequest) is carried out with the tools of the coding agent that sends it;
// - everything else is "The answer is 42."

import { editReply } from "./scripted-edit.ts";
import { dspyReply } from "./scripted-formats.ts";

type Body = Readonly<Record<string, unknown>>;
export interface Call {
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
}
export interface Reply {
  readonly text?: string;
  readonly calls?: readonly Call[];
}
interface Schema {
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
}
export interface Tool {
  readonly name: string;
  readonly parameters?: Schema;
}
export interface Turn {
  readonly role: string;
  readonly text: string;
}

export const answer = "The answer is 42.";

const observation = /^Observation:/;
/** smolagents reports the result of a tool as a user. */
const isObservation = (turn: Turn | undefined): boolean => turn !== undefined && observation.test(turn.text);

export function replyTo(body: Body): Reply {
  const turns = turnsOf(body);
  const tools = toolsOf(body);
  const edit = editReply(turns, tools);
  if (edit) return edit;
  const last = turns.at(-1);
  const reasoning = (body["messages"] as readonly Body[] | undefined)
    ?.map((message) => message["reasoning_content"])
    .find((one) => one !== undefined);
  if (reasoning !== undefined) return { text: `It was: ${String(reasoning)}` };
  if (last?.role === "tool" || isObservation(last)) {
    const final = tools.find(({ name }) => name === "final_answer");
    const report = `It was: ${last?.text.replace(observation, "").trim()}`;
    return final ? { calls: [{ name: final.name, arguments: { answer: report } }] } : { text: report };
  }
  const [tool] = tools;
  if (tool && body["tool_choice"] !== "none")
    return { calls: [{ name: tool.name, arguments: exampleOf(tool.parameters ?? {}) as Call["arguments"] }] };
  const format = body["response_format"] as { type?: string; json_schema?: { schema?: Schema } } | undefined;
  if (format?.type === "json_schema") return { text: JSON.stringify(exampleOf(format.json_schema?.schema ?? {})) };
  return { text: dspyReply(turns, answer) ?? answer };
}

function turnsOf({ messages }: Body): readonly Turn[] {
  const all = Array.isArray(messages) ? (messages as readonly { role: string; content?: unknown }[]) : [];
  return all.map(({ role, content }) => ({ role, text: textOf(content) }));
}

function textOf(content: unknown): string {
  if (!Array.isArray(content)) return typeof content === "string" ? content : "";
  return content.map((part: { text?: unknown }) => (typeof part.text === "string" ? part.text : "")).join("\n");
}

/** The tools, the one that the request names first. */
function toolsOf({ tools, tool_choice: choice }: Body): readonly Tool[] {
  const all = Array.isArray(tools) ? tools.map((tool: { function: Tool }) => tool.function) : [];
  const named = (choice as { function?: { name?: string } } | undefined)?.function?.name;
  return all.toSorted((a, b) => Number(b.name === named) - Number(a.name === named));
}

const examples: Readonly<Record<string, unknown>> = { string: "Paris", integer: 2, number: 2, boolean: true };

function exampleOf(schema: Schema): unknown {
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  if (schema.anyOf?.[0]) return exampleOf(schema.anyOf[0]);
  const type = typeof schema.type === "string" ? schema.type : schema.type?.[0];
  if (type === "array") return schema.items ? [exampleOf(schema.items)] : [];
  if (type !== "object" && type !== undefined) return examples[type] ?? null;
  const properties = Object.entries(schema.properties ?? {});
  return Object.fromEntries(properties.map(([name, of]) => [name, exampleOf(of)]));
}
