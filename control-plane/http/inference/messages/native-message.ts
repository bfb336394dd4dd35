// Decides whether a message may go to an engine in its own format, and writes it. Pure. Only what engines read as the translation
// does: the reply must be the same either way. Streams are translated, because llama.cpp's server omits the input tokens of some;
// so are thinking, output formats, documents and everything that an engine ignores.
import type { NativeRequest } from "../../../inference/completion.ts";
import type { Block, Message, MessageBody } from "./message-request-schemas.ts";
import type { MessageTool } from "./to-chat.ts";

type Fields = Record<string, unknown>;

/** llama.cpp's server changes a system prompt that begins so. */
const billingHeader = "x-anthropic-billing-header:";

/** Undefined: translate. */
export function nativeMessage(body: MessageBody): NativeRequest | undefined {
  const { messages, tools, tool_choice: choice, stop_sequences: stops, temperature, top_p, top_k } = body;
  const isOurs =
    body.stream === true ||
    body.thinking != null ||
    body.output_config != null ||
    body.output_format != null ||
    (choice != null && choice.type !== "auto" && choice.type !== "any") ||
    choice?.disable_parallel_tool_use === true ||
    messages.at(-1)?.role !== "user" ||
    messages.some(({ role }, i) => role !== (i % 2 === 0 ? "user" : "assistant"));
  if (isOurs) return undefined;
  const system = systemOf(body.system);
  const turns = messages.map(turnOf);
  if (system === undefined || !turns.every((turn) => turn !== undefined)) return undefined;
  const hasTools = (tools?.length ?? 0) > 0 || messages.some(hasCalls);
  const fields: Fields = {
    messages: turns,
    ...(system === "" ? {} : { system }),
    ...(tools?.length ? { tools: tools.map(toolOf), ...(choice ? { tool_choice: { type: choice.type } } : {}) } : {}),
    ...(stops?.length ? { stop_sequences: stops } : {}),
    ...(temperature == null ? {} : { temperature }),
    ...(top_p == null ? {} : { top_p }),
    ...(top_k == null ? {} : { top_k }),
  };
  return { format: "messages", needs: hasTools ? ["messages", "messages_tools"] : ["messages"], fields };
}

/** "": none. Undefined: engines join several blocks in other ways. */
function systemOf(system: MessageBody["system"]): string | undefined {
  if (system == null) return "";
  const text = typeof system === "string" ? system : oneText(system);
  return text?.startsWith(billingHeader) ? undefined : text;
}

function oneText(blocks: readonly Block[]): string | undefined {
  const [only] = blocks;
  if (blocks.length === 0) return "";
  return blocks.length === 1 && only?.type === "text" ? only.text : undefined;
}

function turnOf({ role, content }: Message): Fields | undefined {
  if (typeof content === "string") return { role, content };
  const text = oneText(content);
  if (content.length > 0 && text !== undefined) return { role, content: text };
  const blocks = content.map(blockOf);
  if (!blocks.every((block) => block !== undefined)) return undefined;
  const types = content.map(({ type }) => type);
  const isTurn =
    role === "assistant"
      ? // One text, then calls.
        types.includes("tool_use") && types.every((type, i) => type === "tool_use" || (type === "text" && i === 0))
      : types.every((type) => type === "tool_result") ||
        (types.includes("image") && types.every((type) => type === "image" || type === "text"));
  return isTurn && content.length > 0 ? { role, content: blocks } : undefined;
}

function blockOf(block: Block): Fields | undefined {
  switch (block.type) {
    case "text":
      return { type: "text", text: block.text };
    case "image": {
      const { source } = block;
      return source.type === "base64"
        ? { type: "image", source: { type: "base64", media_type: source.media_type, data: source.data } }
        : undefined;
    }
    case "tool_use":
      return { type: "tool_use", id: block.id, name: block.name, input: block.input ?? {} };
    case "tool_result": {
      const { tool_use_id, content, is_error: isError } = block;
      const text = content == null || typeof content === "string" ? (content ?? "") : oneText(content);
      return isError === true || text === undefined ? undefined : { type: "tool_result", tool_use_id, content: text };
    }
    default:
      return undefined;
  }
}

const hasCalls = ({ content }: Message): boolean =>
  typeof content !== "string" && content.some(({ type }) => type === "tool_use" || type === "tool_result");

const toolOf = (tool: unknown): Fields => {
  const { name, description, input_schema } = tool as MessageTool;
  return { name, ...(description ? { description } : {}), input_schema };
};
