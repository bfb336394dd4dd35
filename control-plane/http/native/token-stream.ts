// Events of a stream of completions as native inference gives them: one per token, the last with the whole text.
import type { RewriteEvent } from "../rewritten-stream.ts";

interface Chunk {
  readonly choices?: readonly {
    readonly text?: string;
    readonly finish_reason?: string | null;
    readonly logprobs?: {
      readonly tokens?: readonly string[];
      readonly token_logprobs?: readonly (number | null)[];
    } | null;
  }[];
  readonly usage?: { readonly completion_tokens?: number } | null;
  readonly error?: { readonly message?: string; readonly code?: string };
}

/** Of one stream. `seed`: as the request gave it. */
export function tokenEvents(seed: unknown): RewriteEvent {
  let whole = "";
  let tokens = 0;
  return (data) => {
    const { choices = [], usage, error } = JSON.parse(data) as Chunk;
    if (error) {
      return JSON.stringify({
        error_type: error.code ?? "engine_error",
        error_message: error.message ?? "the engine failed",
      });
    }
    const [choice] = choices;
    if (!choice) return undefined;
    const { text = "", logprobs, finish_reason: reason } = choice;
    if (text === "" && !reason) return undefined;
    whole += text;
    if (text !== "") tokens += logprobs?.tokens?.length || 1;
    // `token_id:123`, as it was asked for.
    const id = Number(logprobs?.tokens?.at(-1)?.split(":")[1] ?? 0);
    return JSON.stringify({
      token: {
        id: Number.isSafeInteger(id) ? id : 0,
        text,
        logprob: logprobs?.token_logprobs?.at(-1) ?? null,
        special: text === "",
      },
      generated_text: reason ? whole : null,
      details: reason
        ? { finish_reason: reason, generated_tokens: usage?.completion_tokens ?? tokens, seed: seed ?? null }
        : null,
    });
  };
}
