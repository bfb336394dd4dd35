// A streamed chat as any client of the interface has it: with a bearer token, because a cookie counts on no inference.
import { ApiError, refusalOf } from "./api.ts";
import type { ChatRequest } from "./chat-request.ts";
import { eventsIn } from "./sse.ts";

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

/** Also while a model starts the server says something at least this often. */
const silenceMs = 120_000;

/** Returns when the answer has ended. Throws ApiError; rejects with an AbortError once `signal` is aborted. */
export async function streamChat(
  token: string,
  request: ChatRequest,
  signal: AbortSignal,
  on: ChatEvents,
): Promise<void> {
  const silence = new AbortController();
  const tooQuiet = () => silence.abort(new ApiError(`The server said nothing for ${silenceMs / 1000} s.`, 0));
  let timer = setTimeout(tooQuiet, silenceMs);
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(tooQuiet, silenceMs);
  };
  try {
    const answer = await fetch("/v1/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
      body: JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } }),
      signal: AbortSignal.any([signal, silence.signal]),
    });
    heard();
    if (!answer.ok || !answer.body) throw await refusalOf(answer);
    on.onStart(answer.headers.get("x-request-id") ?? "");
    let buffer = "";
    let isWhole = false;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done && !isWhole)
        throw new ApiError("The answer broke off: the server or the way to it ended it early. Ask again.", 0);
      if (done) return;
      heard();
      const { data, rest } = eventsIn(buffer + value);
      buffer = rest;
      for (const text of data) {
        if (text === "[DONE]") isWhole = true;
        else tell(JSON.parse(text) as Chunk, on);
      }
    }
  } finally {
    clearTimeout(timer);
  }
}

function tell({ choices, usage, error }: Chunk, on: ChatEvents): void {
  if (error) throw new ApiError(error.message, 200, error.code ?? "");
  const text = choices?.[0]?.delta?.content;
  if (text) on.onText(text);
  if (usage) on.onUsage(usage);
}
