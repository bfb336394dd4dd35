// Events of a stream of completions as native inference gives them: one per token, the last of each response with its whole text.
import type { RewriteEvent } from "../rewritten-stream.ts";

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

/** Of one stream. `seed`: as the request gave it. `responses`: with more than one each event says of which it is, from 0. */
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
    // `token_id:123`, as it was asked for.
    const last = logprobs?.tokens?.at(-1);
    const id = typeof last === "string" ? Number(last.split(":")[1] ?? 0) : 0;
    // The engine's figure is of all responses together.
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
    // One event each.
    return events.length > 0 ? events.join("\n\ndata: ") : undefined;
  };
}

/**
 * What an engine wrote that is none says nothing. An error thrown of it would end the connection that all requests at its host
 * share.
 */
function isChoice(one: unknown): one is Choice {
  if (typeof one !== "object" || one === null) return false;
  const { text, logprobs } = one as Choice;
  const lists = [logprobs?.tokens, logprobs?.token_logprobs];
  return (text == null || typeof text === "string") && lists.every((list) => list == null || Array.isArray(list));
}

/** Likewise what is no object. */
function chunkOf(data: string): Chunk {
  try {
    return (JSON.parse(data) ?? {}) as Chunk;
  } catch {
    return {};
  }
}
