// Streams a chat with a bearer token, because inference does not accept cookies.
import { ApiError, refusalOf } from "./api.ts";

/** Chat request of the playground and of the code snippets. */
export interface ChatRequest {
  readonly model: string;
  readonly messages: readonly Message[];
  readonly max_tokens: number;
  readonly temperature: number;
}

export interface Message {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly estimated_cost?: number;
}

interface Chunk {
  readonly choices?: readonly { readonly delta?: { readonly content?: string | null } }[];
  readonly usage?: Usage | null;
  readonly error?: { readonly message: string; readonly code?: string | null };
}

export interface ChatEvents {
  onStart(requestId: string): void;
  onText(text: string): void;
  onUsage(usage: Usage): void;
}

/** Maximum time between two chunks. The server sends comments while a model starts. */
const maxGapMs = 120_000;

/** Returns at the end of the response. Throws ApiError, or AbortError when `signal` is aborted. */
export async function streamChat(
  token: string,
  request: ChatRequest,
  signal: AbortSignal,
  on: ChatEvents,
): Promise<void> {
  const gap = new AbortController();
  const onGap = () => gap.abort(new ApiError(`No data from the server for ${maxGapMs / 1000} s.`, 0));
  let timer = setTimeout(onGap, maxGapMs);
  const restartTimer = () => {
    clearTimeout(timer);
    timer = setTimeout(onGap, maxGapMs);
  };
  try {
    const answer = await fetch("/v1/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
      body: JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } }),
      signal: AbortSignal.any([signal, gap.signal]),
    });
    restartTimer();
    if (!answer.ok || !answer.body) throw await refusalOf(answer);
    on.onStart(answer.headers.get("x-request-id") ?? "");
    let buffer = "";
    let isComplete = false;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done && !isComplete)
        throw new ApiError(
          "The response ended early: the server or the connection stopped it. Send the message again.",
          0,
        );
      if (done) return;
      restartTimer();
      const { data, rest } = eventsIn(buffer + value);
      buffer = rest;
      for (const text of data) {
        if (text === "[DONE]") isComplete = true;
        else dispatch(JSON.parse(text) as Chunk, on);
      }
    }
  } finally {
    clearTimeout(timer);
  }
}

function dispatch({ choices, usage, error }: Chunk, on: ChatEvents): void {
  if (error) throw new ApiError(error.message, 200, error.code ?? "");
  const text = choices?.[0]?.delta?.content;
  if (text) on.onText(text);
  if (usage) on.onUsage(usage);
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
