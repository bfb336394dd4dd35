// Converts the body of a response to the fields of a chat and to its Completion. Pure.
import type { Completion } from "../../../inference/completion.ts";
import { checkFormat } from "../check-format.ts";
import { definedFields } from "../defined-fields.ts";
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

/**
 * `before`: items of earlier responses. `bodyBytes`: upper bound of its text. Throws the errors of input-messages.ts and tools.ts,
 * formatTooLarge.
 */
export function chatCompletion(
  body: ResponseRequest,
  { before, items }: { readonly before: readonly ResponseItem[]; readonly items: readonly ResponseItem[] },
  open: OpenReasoning,
  bodyBytes: number,
): Completion {
  const messages = messagesOf([...before, ...items], body.instructions, open, before.length);
  const stream = body.stream === true && body.background !== true;
  const format = formatOf(body.text?.format);
  const wantsLogprobs = body.include?.includes("message.output_text.logprobs") || (body.top_logprobs ?? 0) > 0;
  const fields = definedFields({
    model: body.model,
    messages,
    ...chatTools(body.tools ?? [], body.tool_choice),
    parallel_tool_calls: body.tools?.length ? body.parallel_tool_calls : undefined,
    response_format: format,
    reasoning_effort: body.reasoning?.effort,
    max_tokens: body.max_output_tokens,
    temperature: body.temperature,
    top_p: body.top_p,
    logprobs: wantsLogprobs || undefined,
    top_logprobs: wantsLogprobs ? (body.top_logprobs ?? 0) : undefined,
    prompt_cache_key: body.prompt_cache_key,
    stream: stream || undefined,
  });
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
    bytes: Buffer.alloc(0),
    fields,
    isRebuilt: true,
    task: undefined,
    serviceTier: body.service_tier ?? undefined,
    endUser: body.safety_identifier ?? body.user ?? undefined,
    cacheKey: body.prompt_cache_key ?? undefined,
    native: () => nativeResponse(body, [...before, ...items]),
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
