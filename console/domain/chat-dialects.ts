// A chat request as body of the Responses and the Messages API.
import type { ChatRequest, Content, Message, ResponseFormat } from "./chat.ts";

type Body = Readonly<Record<string, unknown>>;

const textOf = (content: Content): string =>
  typeof content === "string"
    ? content
    : content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");

const systemOf = (messages: readonly Message[]): string =>
  messages.flatMap(({ role, content }) => (role === "system" ? [textOf(content)] : [])).join("\n\n");

/** Removes fields without a value, so that they are not sent. */
const defined = (body: Body): Body =>
  Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined));

export function asResponses(request: ChatRequest): Body {
  const instructions = systemOf(request.messages);
  return defined({
    model: request.model,
    instructions: instructions || undefined,
    input: request.messages.flatMap(responsesItems),
    max_output_tokens: request.max_tokens,
    temperature: request.temperature,
    top_p: request.top_p,
    service_tier: request.service_tier,
    reasoning: request.reasoning_effort && { effort: request.reasoning_effort },
    tools: request.tools?.map(({ function: { name, description, parameters } }) =>
      defined({ type: "function", name, description, parameters }),
    ),
    text: request.response_format && { format: responsesFormat(request.response_format) },
  });
}

function responsesFormat(format: ResponseFormat): Body {
  return format.type === "json_schema"
    ? { type: "json_schema", name: format.json_schema.name, schema: format.json_schema.schema }
    : format;
}

function responsesItems(message: Message): readonly Body[] {
  switch (message.role) {
    case "system":
      return [];
    case "tool":
      return [{ type: "function_call_output", call_id: message.tool_call_id, output: message.content }];
    case "user":
      return [
        {
          role: "user",
          content:
            typeof message.content === "string"
              ? message.content
              : message.content.map((part) =>
                  part.type === "text"
                    ? { type: "input_text", text: part.text }
                    : { type: "input_image", image_url: part.image_url.url },
                ),
        },
      ];
    default:
      return [
        ...(message.content === "" ? [] : [{ role: "assistant", content: message.content }]),
        ...(message.tool_calls ?? []).map(({ id, function: { name, arguments: text } }) => ({
          type: "function_call",
          call_id: id,
          name,
          arguments: text,
        })),
      ];
  }
}

export function asMessages(request: ChatRequest): Body {
  const system = systemOf(request.messages);
  return defined({
    model: request.model,
    system: system || undefined,
    messages: request.messages.flatMap(messagesItems),
    max_tokens: request.max_tokens,
    temperature: request.temperature,
    top_p: request.top_p,
    stop_sequences: request.stop,
    tools: request.tools?.map(({ function: { name, description, parameters } }) =>
      defined({ name, description, input_schema: parameters }),
    ),
    output_config:
      request.response_format?.type === "json_schema"
        ? { format: { type: "json_schema", schema: request.response_format.json_schema.schema } }
        : undefined,
  });
}

function messagesItems(message: Message): readonly Body[] {
  switch (message.role) {
    case "system":
      return [];
    case "tool":
      return [
        {
          role: "user",
          content: [{ type: "tool_result", tool_use_id: message.tool_call_id, content: message.content }],
        },
      ];
    case "user":
      return [
        {
          role: "user",
          content:
            typeof message.content === "string"
              ? message.content
              : message.content.map((part) => (part.type === "text" ? part : anthropicImage(part.image_url.url))),
        },
      ];
    default:
      return [
        {
          role: "assistant",
          content: message.tool_calls?.length
            ? [
                ...(message.content === "" ? [] : [{ type: "text", text: message.content }]),
                ...message.tool_calls.map(({ id, function: { name, arguments: text } }) => ({
                  type: "tool_use",
                  id,
                  name,
                  input: parsed(text),
                })),
              ]
            : message.content,
        },
      ];
  }
}

function anthropicImage(url: string): Body {
  const [, type, data] = /^data:([^;]+);base64,(.*)$/s.exec(url) ?? [];
  return { type: "image", source: data ? { type: "base64", media_type: type, data } : { type: "url", url } };
}

/** Models may write arguments that are not JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text || "{}");
  } catch {
    return {};
  }
}
