// Converts tools and their choice to those of a chat. Pure.
import { fieldMissing } from "../../errors/errors.ts";
import { toolUnknown, toolUnsupported } from "./errors.ts";
import type { ResponseTool, ToolChoice } from "./responses-schemas.ts";

interface ChatTools {
  readonly tools: readonly object[] | undefined;
  readonly tool_choice: string | object | undefined;
}

/** A tool as its calls name it. */
export interface CalledTool {
  readonly name: string;
  readonly namespace: string | undefined;
  /** Its input is one text, and its calls are items of another type. */
  readonly isCustom: boolean;
}

interface FlatTool extends CalledTool {
  readonly tool: ResponseTool;
}

/** Name of a tool's function: a chat has no namespaces. */
export const functionName = (namespace: string | null | undefined, name: string): string =>
  namespace ? `${namespace}__${name}` : name;

/** By the names of their functions. */
export const calledTools = (tools: readonly ResponseTool[]): ReadonlyMap<string, CalledTool> =>
  tools.length === 0 ? noTools : new Map(flat(tools).map((tool) => [functionName(tool.namespace, tool.name), tool]));

const noTools: ReadonlyMap<string, CalledTool> = new Map();

/** Throws toolUnsupported, toolUnknown, fieldMissing. */
export function chatTools(tools: readonly ResponseTool[], choice: string | ToolChoice | null | undefined): ChatTools {
  const known = tools.length === 0 ? [] : flat(tools);
  const functions = (chosen: readonly FlatTool[]) => (chosen.length > 0 ? chosen.map(functionOf) : undefined);
  if (choice == null || typeof choice === "string") {
    // Without tools, engines refuse a choice.
    return { tools: functions(known), tool_choice: known.length > 0 ? (choice ?? undefined) : undefined };
  }
  /** All tools of a namespace, or one tool. */
  const find = (name: unknown): readonly FlatTool[] => {
    const found = known.filter((one) => one.name === name || one.namespace === name);
    if (found.length === 0) throw toolUnknown(String(name));
    return found;
  };
  switch (choice.type) {
    case "function":
    case "custom": {
      const [one] = find(choice.name) as [FlatTool];
      const name = functionName(one.namespace, one.name);
      return { tools: functions(known), tool_choice: { type: "function", function: { name } } };
    }
    case "allowed_tools": {
      if (!choice.tools) throw fieldMissing("tool_choice.tools");
      const allowed = new Set(choice.tools.flatMap(({ name }) => find(name)));
      return { tools: functions(known.filter((one) => allowed.has(one))), tool_choice: choice.mode ?? "auto" };
    }
    default:
      throw toolUnsupported(choice.type, "tool_choice.type");
  }
}

/** Tools outside and inside of namespaces. Throws toolUnsupported, fieldMissing. */
function flat(tools: readonly ResponseTool[], namespace?: string, at = "tools"): FlatTool[] {
  return tools.flatMap((tool, i) => {
    const param = `${at}.${i}`;
    const { type, name, tools: inside } = tool;
    const isNamespace = type === "namespace" && namespace === undefined;
    if (type !== "function" && type !== "custom" && !isNamespace) throw toolUnsupported(type, `${param}.type`);
    if (name === undefined) throw fieldMissing(`${param}.name`);
    if (isNamespace) return flat(inside ?? [], name, `${param}.tools`);
    return [{ name, namespace, isCustom: type === "custom", tool }];
  });
}

function functionOf({ name, namespace, isCustom, tool }: FlatTool): object {
  const { description, parameters, strict, format } = tool;
  const own = functionName(namespace, name);
  if (!isCustom) {
    return {
      type: "function",
      function: {
        name: own,
        ...(description ? { description } : {}),
        ...(parameters ? { parameters } : {}),
        ...(strict === true ? { strict } : {}),
      },
    };
  }
  const grammar =
    format?.definition === undefined ? "" : `The input must match this ${format.syntax} grammar:\n${format.definition}`;
  return {
    type: "function",
    function: {
      name: own,
      ...(description || grammar ? { description: [description, grammar].filter(Boolean).join("\n\n") } : {}),
      parameters: {
        type: "object",
        properties: { input: { type: "string" } },
        required: ["input"],
        additionalProperties: false,
      },
    },
  };
}
