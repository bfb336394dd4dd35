// One token, asked of the engine itself: past the gate, nobody's request and nobody's bill.
import { boundedText } from "./bounded-body.ts";

/** Undefined once it answered, else why not. */
export type Canary = (origin: string, model: string, signal: AbortSignal) => Promise<string | undefined>;

const answerBytes = 1024 * 1024;

export function createCanary(limitMs = 20_000): Canary {
  return async (origin, model, signal) => {
    try {
      const answer = await fetch(`${origin}/v1/completions`, {
        method: "POST",
        headers: { "content-type": "application/json", "x-stoker-request-id": "canary" },
        body: JSON.stringify({ model, prompt: "a", max_tokens: 1 }),
        redirect: "error",
        signal: AbortSignal.any([signal, AbortSignal.timeout(limitMs)]),
      });
      await boundedText(answer, answerBytes);
      // A refusal is an answer too: full, on its way out, or no model for this kind of request.
      const isBroken = answer.status >= 500 && answer.status !== 503;
      return isBroken ? `a request for one token was answered ${answer.status}` : undefined;
    } catch (error) {
      signal.throwIfAborted();
      const isSilent = (error as Error).name === "TimeoutError";
      return isSilent
        ? `a request for one token was not answered within ${limitMs / 1000} s`
        : String((error as Error).message);
    }
  };
}
