// Converts a stream of completions to events of native inference: one per token, the last of each response with its whole text.
import type { RewriteEvent } from "../translated-stream.ts";

interface Choice {
  readonly index?: number;
  readonly text?: string | null;
  readonly finish_reason?: string | null;
  readonly logprobs?: {
    readonly tokens?: readonly unknown[] | null;
    readonly token_logprobs?: readonly (number | null)[] | null;
  } | null;
}

interface Chunk {
  readonly choices?: readonly Choice[];
  readonly usage?: { readonly completion_tokens?: number } | null;
  readonly error?: { readonly message?: string; readonly code?: string };
}

interface Response {
  text: string;
  tokens: number;
}

/** For one stream. `seed`: that of the request. With more than one of `responses`, each event has the index of its response. */
export function tokenEvents(seed: unknown, responses: number): RewriteEvent {
  const known = new Map<number, Response>();

  function eventOf(
    { index = 0, text: written, logprobs, finish_reason: reason }: Choice,
    usage: Chunk["usage"],
  ): string {
    const text = written ?? "";
    const response = known.get(index) ?? { text: "", tokens: 0 };
    known.set(index, response);
    response.text += text;
    if (text !== "") response.tokens += logprobs?.tokens?.length || 1;
    // `token_id:123`, because the request sets `return_tokens_as_token_ids`.
    const last = logprobs?.tokens?.at(-1);
    const id = typeof last === "string" ? Number(last.split(":")[1] ?? 0) : 0;
    // The engine reports the sum of all responses.
    const counted = responses === 1 ? usage?.completion_tokens : undefined;
    return JSON.stringify({
      ...(responses > 1 ? { index } : {}),
      token: {
        id: Number.isSafeInteger(id) ? id : 0,
        text,
        logprob: logprobs?.token_logprobs?.at(-1) ?? null,
        special: text === "",
      },
      generated_text: reason ? response.text : null,
      details: reason
        ? { finish_reason: reason, generated_tokens: counted ?? response.tokens, seed: seed ?? null }
        : null,
    });
  }

  return (data) => {
    const { choices, usage, error } = chunkOf(data);
    if (error) {
      return JSON.stringify({
        error_type: error.code ?? "engine_error",
        error_message: error.message ?? "the engine failed",
      });
    }
    const events = (Array.isArray(choices) ? choices : [])
      .filter(isChoice)
      .filter(({ text, finish_reason: reason }) => text || reason)
      .map((choice) => eventOf(choice, usage));
    // One event per choice.
    return events.length > 0 ? events.join("\n\ndata: ") : undefined;
  };
}

/**
 * False: ignore it. An error thrown for an engine's malformed event would end the connection that all requests to its host share.
 */
function isChoice(one: unknown): one is Choice {
  if (typeof one !== "object" || one === null) return false;
  const { text, logprobs } = one as Choice;
  const lists = [logprobs?.tokens, logprobs?.token_logprobs];
  return (text == null || typeof text === "string") && lists.every((list) => list == null || Array.isArray(list));
}

/** An empty chunk for anything that is not a JSON object, for the same reason. */
function chunkOf(data: string): Chunk {
  try {
    return (JSON.parse(data) ?? {}) as Chunk;
  } catch {
    return {};
  }
}
