// The response object, from the request and its state. Pure.
import type { ServiceTier } from "../../../../proto/service-tier.ts";
import type { ChatUsage } from "../chat-deltas.ts";
import type { ResponseRequest } from "./responses-schemas.ts";

export type ResponseStatus = "queued" | "in_progress" | "completed" | "incomplete" | "failed" | "cancelled";

/** Fields of the response object that do not change while it runs. */
export type ResponseFrame = Readonly<Record<string, unknown>> & { readonly id: string };

export interface ResponseState {
  readonly status: ResponseStatus;
  readonly output: readonly object[];
  readonly usage?: ChatUsage | undefined;
  /** Unix seconds. */
  readonly completedAt?: number | undefined;
  readonly error?: { readonly code: string; readonly message: string } | undefined;
  readonly incompleteReason?: "max_output_tokens" | "content_filter" | undefined;
}

/** `id` and `model`: as shown to the client. `tier`: the one that serves it. `createdAt`: Unix seconds. */
export function frameOf(
  body: ResponseRequest,
  id: string,
  model: string,
  createdAt: number,
  tier: ServiceTier,
): ResponseFrame {
  const { text, reasoning } = body;
  const { user } = body;
  return {
    id,
    object: "response",
    created_at: createdAt,
    background: body.background ?? false,
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    max_tool_calls: body.max_tool_calls ?? null,
    metadata: body.metadata ?? {},
    model,
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    previous_response_id: body.previous_response_id ?? null,
    prompt_cache_key: body.prompt_cache_key ?? null,
    reasoning: {
      effort: reasoning?.effort ?? null,
      summary: reasoning?.summary ?? reasoning?.generate_summary ?? null,
    },
    safety_identifier: body.safety_identifier ?? null,
    service_tier: tier,
    store: body.store ?? false,
    temperature: body.temperature ?? 1,
    text: { format: text?.format ?? { type: "text" }, verbosity: text?.verbosity ?? "medium" },
    tool_choice: body.tool_choice ?? "auto",
    tools: (body.tools ?? []).map((tool) =>
      tool.type === "function" ? { ...tool, parameters: tool.parameters ?? null, strict: tool.strict ?? null } : tool,
    ),
    top_logprobs: body.top_logprobs ?? 0,
    top_p: body.top_p ?? 1,
    truncation: body.truncation ?? "disabled",
    access_programs: null,
    ...(typeof user === "string" ? { user } : {}),
  };
}

/** `responseJson` writes it as text. */
export const responseObject = (
  frame: ResponseFrame,
  { status, output, usage, completedAt, error, incompleteReason }: ResponseState,
): ResponseFrame => ({
  ...frame,
  status,
  completed_at: completedAt ?? null,
  error: error ?? null,
  incomplete_details: incompleteReason ? { reason: incompleteReason } : null,
  output,
  ...(usage ? { usage: usageOf(usage) } : {}),
});

export const usageOf = ({ input, cached, output, reasoning, total, estimatedCost }: ChatUsage) => ({
  input_tokens: input,
  input_tokens_details: { cached_tokens: cached, cache_write_tokens: 0 },
  output_tokens: output,
  output_tokens_details: { reasoning_tokens: reasoning },
  total_tokens: total,
  ...(estimatedCost === undefined ? {} : { estimated_cost: estimatedCost }),
});
