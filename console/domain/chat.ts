// Streams a chat with a bearer token, because inference does not accept cookies.
import { ApiError, refusalOf } from "../api/client.ts";

export type Part =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image_url"; readonly image_url: { readonly url: string } };

export type Content = string | readonly Part[];

export interface ToolCall {
  readonly id: string;
  readonly type: "function";
  /** `arguments`: JSON text as the model wrote it. */
  readonly function: { readonly name: string; readonly arguments: string };
}

export type Message =
  | { readonly role: "system"; readonly content: string }
  | { readonly role: "user"; readonly content: Content }
  | { readonly role: "assistant"; readonly content: string; readonly tool_calls?: readonly ToolCall[] }
  | { readonly role: "tool"; readonly tool_call_id: string; readonly content: string };

export interface Tool {
  readonly type: "function";
  readonly function: {
    readonly name: string;
    readonly description?: string;
    readonly parameters: Readonly<Record<string, unknown>>;
  };
}

export type ResponseFormat =
  | { readonly type: "json_object" }
  | {
      readonly type: "json_schema";
      readonly json_schema: { readonly name: string; readonly schema: Readonly<Record<string, unknown>> };
    };

/** Chat request of the playground and of the code snippets. */
export interface ChatRequest {
  readonly model: string;
  readonly messages: readonly Message[];
  readonly max_tokens: number;
  readonly temperature: number;
  readonly top_p?: number;
  readonly presence_penalty?: number;
  readonly frequency_penalty?: number;
  readonly seed?: number;
  readonly stop?: readonly string[];
  readonly reasoning_effort?: string;
  readonly service_tier?: string;
  readonly tools?: readonly Tool[];
  readonly response_format?: ResponseFormat;
}

export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null;
  readonly estimated_cost?: number;
}

/** Received part of a response. Times are measured from the sending of the request. */
export interface Answer {
  readonly text: string;
  readonly reasoning: string;
  readonly toolCalls: readonly ToolCall[];
  /** Empty until the end. */
  readonly finishReason: string;
  readonly requestId: string;
  readonly usage?: Usage;
  readonly firstMs?: number;
  readonly totalMs?: number;
}

export const noAnswer: Answer = { text: "", reasoning: "", toolCalls: [], finishReason: "", requestId: "" };

interface CallDelta {
  readonly index: number;
  readonly id?: string | null;
  readonly function?: { readonly name?: string | null; readonly arguments?: string | null };
}

export interface Chunk {
  readonly choices?: readonly {
    readonly delta?: {
      readonly content?: string | null;
      readonly reasoning_content?: string | null;
      readonly tool_calls?: readonly CallDelta[] | null;
    };
    readonly finish_reason?: string | null;
  }[];
  readonly usage?: Usage | null;
  readonly error?: { readonly message: string; readonly code?: string | null };
}

/** Maximum time between two chunks. The server sends comments while a model starts. */
const maxGapMs = 120_000;

/** Reports the answer as it grows. Throws ApiError, or AbortError when `signal` is aborted. */
export async function streamChat(
  token: string,
  request: ChatRequest,
  signal: AbortSignal,
  onChange: (answer: Answer) => void,
): Promise<void> {
  const gap = new AbortController();
  const onGap = () => gap.abort(new ApiError(`No data from the server for ${maxGapMs / 1000} s.`, 0));
  let timer = setTimeout(onGap, maxGapMs);
  const restartTimer = () => {
    clearTimeout(timer);
    timer = setTimeout(onGap, maxGapMs);
  };
  const startedMs = performance.now();
  let answer = noAnswer;
  const change = (next: Answer) => {
    answer = next;
    onChange(answer);
  };
  try {
    const response = await fetch("/v1/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
      body: JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } }),
      signal: AbortSignal.any([signal, gap.signal]),
    });
    restartTimer();
    if (!response.ok || !response.body) throw await refusalOf(response);
    change({ ...answer, requestId: response.headers.get("x-request-id") ?? "" });
    let buffer = "";
    let isComplete = false;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done && !isComplete)
        throw new ApiError(
          "The response ended early: the server or the connection stopped it. Send the message again.",
          0,
          "",
          answer.requestId,
        );
      if (done) break;
      restartTimer();
      const { data, rest } = eventsIn(buffer + value);
      buffer = rest;
      let next = answer;
      for (const text of data) {
        if (text === "[DONE]") isComplete = true;
        else next = withChunk(next, JSON.parse(text) as Chunk, performance.now() - startedMs);
      }
      if (next !== answer) change(next);
    }
    change({ ...answer, totalMs: performance.now() - startedMs });
  } finally {
    clearTimeout(timer);
  }
}

/** `ms`: since the request was sent. Throws ApiError if the chunk is an error. */
export function withChunk(answer: Answer, { choices, usage, error }: Chunk, ms: number): Answer {
  if (error) throw new ApiError(error.message, 200, error.code ?? "", answer.requestId);
  const [choice] = choices ?? [];
  const { content, reasoning_content: reasoning, tool_calls: calls } = choice?.delta ?? {};
  const hasOutput = Boolean(content || reasoning || calls?.length);
  return {
    ...answer,
    text: answer.text + (content ?? ""),
    reasoning: answer.reasoning + (reasoning ?? ""),
    toolCalls: calls ? calls.reduce(withCall, answer.toolCalls) : answer.toolCalls,
    finishReason: choice?.finish_reason ?? answer.finishReason,
    ...(hasOutput && answer.firstMs === undefined ? { firstMs: ms } : {}),
    ...(usage ? { usage } : {}),
  };
}

/** The name and the arguments of a call arrive in parts. */
function withCall(calls: readonly ToolCall[], { index, id, function: part }: CallDelta): readonly ToolCall[] {
  const before = calls[index] ?? { id: "", type: "function", function: { name: "", arguments: "" } };
  const after: ToolCall = {
    ...before,
    id: id ?? before.id,
    function: {
      name: before.function.name + (part?.name ?? ""),
      arguments: before.function.arguments + (part?.arguments ?? ""),
    },
  };
  return [...calls.slice(0, index), after, ...calls.slice(index + 1)];
}

/** Output tokens per second after the first one. Undefined: unknown. */
export function tokensPerSecond({ usage, firstMs, totalMs }: Answer): number | undefined {
  if (!usage || firstMs === undefined || totalMs === undefined) return undefined;
  const tokens = usage.completion_tokens - 1;
  return tokens > 0 && totalMs > firstMs ? (tokens * 1000) / (totalMs - firstMs) : undefined;
}

/** Data of the complete server-sent events in `buffer`, and the remainder. Ignores comments. */
export function eventsIn(buffer: string): { readonly data: readonly string[]; readonly rest: string } {
  const parts = buffer.replaceAll("\r\n", "\n").split("\n\n");
  const rest = parts.pop() ?? "";
  const data = parts.flatMap((event) => {
    const lines = event.split("\n").filter((line) => line.startsWith("data:"));
    return lines.length > 0 ? [lines.map((line) => line.slice(5).replace(/^ /, "")).join("\n")] : [];
  });
  return { data, rest };
}
