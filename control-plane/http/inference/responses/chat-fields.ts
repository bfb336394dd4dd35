// Converts the body of a response to the fields of a chat and to its Completion. Pure.
import type { Completion } from "../../../inference/completion.ts";
import { checkFormat } from "../check-format.ts";
import { inputEmpty, inputMissing } from "./errors.ts";
import { messagesOf, type OpenReasoning } from "./input-messages.ts";
import { nativeResponse } from "./native-response.ts";
import type { ResponseItem, ResponseRequest, TextFormat } from "./responses-schemas.ts";
import { chatTools } from "./tools.ts";

/** Input of a request as items. Throws inputMissing, inputEmpty. */
export function itemsOf({ input, previous_response_id: previous }: ResponseRequest): readonly ResponseItem[] {
  if (typeof input === "string") return [{ type: "message", role: "user", content: input }];
  if (input && (input.length > 0 || previous)) return input;
  if (previous) return [];
  throw input ? inputEmpty() : inputMissing();
}

const noBytes = Buffer.alloc(0);

/**
 * The first `beforeCount` items are of earlier responses. `bodyBytes`: upper bound of the text. Throws the errors of
 * input-messages.ts and tools.ts, formatTooLarge.
 */
export function chatCompletion(
  body: ResponseRequest,
  { items, beforeCount }: { readonly items: readonly ResponseItem[]; readonly beforeCount: number },
  open: OpenReasoning,
  bodyBytes: number,
): Completion {
  const messages = messagesOf(items, body.instructions, open, beforeCount);
  const stream = body.stream === true && body.background !== true;
  const format = formatOf(body.text?.format);
  const wantsLogprobs = body.include?.includes("message.output_text.logprobs") || (body.top_logprobs ?? 0) > 0;
  const { tools, tool_choice } = chatTools(body.tools ?? [], body.tool_choice);
  const fields = {
    model: body.model,
    messages,
    tools,
    tool_choice,
    parallel_tool_calls: body.tools?.length ? (body.parallel_tool_calls ?? undefined) : undefined,
    response_format: format,
    reasoning_effort: body.reasoning?.effort ?? undefined,
    max_tokens: body.max_output_tokens ?? undefined,
    temperature: body.temperature ?? undefined,
    top_p: body.top_p ?? undefined,
    logprobs: wantsLogprobs || undefined,
    top_logprobs: wantsLogprobs ? (body.top_logprobs ?? 0) : undefined,
    prompt_cache_key: body.prompt_cache_key ?? undefined,
    stream: stream || undefined,
  };
  checkFormat(fields);
  return {
    kind: "chat",
    model: body.model,
    stream,
    n: 1,
    maxTokens: body.max_output_tokens ?? undefined,
    promptBytes: bodyBytes,
    messages: messages.length,
    usage: "extra",
    // The engine's body is written from the fields.
    bytes: noBytes,
    fields,
    isRebuilt: true,
    task: undefined,
    serviceTier: body.service_tier ?? undefined,
    endUser: body.safety_identifier ?? body.user ?? undefined,
    cacheKey: body.prompt_cache_key ?? undefined,
    native: () => nativeResponse(body, items),
  };
}

function formatOf(format: TextFormat | null | undefined): object | undefined {
  if (format?.type === "json_object") return { type: "json_object" };
  if (format?.type !== "json_schema") return undefined;
  const { name, description, schema, strict } = format;
  return {
    type: "json_schema",
    json_schema: {
      name,
      schema,
      ...(description ? { description } : {}),
      ...(typeof strict === "boolean" ? { strict } : {}),
    },
  };
}
