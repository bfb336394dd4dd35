// Converts tools and their choice to those of a chat. Pure.
import { fieldMissing } from "../../errors/errors.ts";
import { toolUnknown, toolUnsupported } from "./errors.ts";
import type { ResponseTool, ToolChoice } from "./responses-schemas.ts";

interface ChatTools {
  readonly tools: readonly object[] | undefined;
  readonly tool_choice: string | object | undefined;
}

/** Names of tools with a free text as input, whose calls are items of another type. */
export const customNames = (tools: readonly ResponseTool[]): ReadonlySet<string> =>
  new Set(tools.filter(({ type }) => type === "custom").map(({ name }) => name as string));

/** Throws toolUnsupported, toolUnknown, fieldMissing. */
export function chatTools(tools: readonly ResponseTool[], choice: string | ToolChoice | null | undefined): ChatTools {
  const known = tools.map((tool, i) => [tool.name as string, chatTool(tool, `tools.${i}`)] as const);
  const allOf = (chosen: typeof known) => (chosen.length > 0 ? chosen.map(([, tool]) => tool) : undefined);
  if (choice == null || typeof choice === "string") {
    // Without tools, engines refuse a choice.
    return { tools: allOf(known), tool_choice: known.length > 0 ? (choice ?? undefined) : undefined };
  }
  const find = (name: unknown) => {
    const tool = known.find(([one]) => one === name);
    if (!tool) throw toolUnknown(String(name));
    return tool;
  };
  switch (choice.type) {
    case "function":
    case "custom": {
      const [name] = find(choice.name);
      return { tools: allOf(known), tool_choice: { type: "function", function: { name } } };
    }
    case "allowed_tools": {
      if (!choice.tools) throw fieldMissing("tool_choice.tools");
      const names = new Set(choice.tools.map(({ name }) => find(name)[0]));
      return { tools: allOf(known.filter(([name]) => names.has(name))), tool_choice: choice.mode ?? "auto" };
    }
    default:
      throw toolUnsupported(choice.type, "tool_choice.type");
  }
}

function chatTool({ type, name, description, parameters, strict, format }: ResponseTool, param: string): object {
  if (type !== "function" && type !== "custom") throw toolUnsupported(type, `${param}.type`);
  if (name === undefined) throw fieldMissing(`${param}.name`);
  if (type === "function") {
    return {
      type: "function",
      function: {
        name,
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
      name,
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
