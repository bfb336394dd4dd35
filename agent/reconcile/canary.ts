// Requests one token from the engine directly: it bypasses the gate and is not billed.
import { authorizationFor, type EngineAddress } from "../../proto/bearer-secret.ts";
import { boundedText } from "./bounded-body.ts";

/** Returns undefined once the engine replied, otherwise the reason. */
export type Canary = (engine: EngineAddress, model: string, signal: AbortSignal) => Promise<string | undefined>;

const answerBytes = 1024 * 1024;

export function createCanary(limitMs = 20_000): Canary {
  return async (engine, model, signal) => {
    try {
      const answer = await fetch(`${engine.origin}/v1/completions`, {
        method: "POST",
        headers: { "content-type": "application/json", "x-stoker-request-id": "canary", ...authorizationFor(engine) },
        body: JSON.stringify({ model, prompt: "a", max_tokens: 1 }),
        redirect: "error",
        signal: AbortSignal.any([signal, AbortSignal.timeout(limitMs)]),
      });
      await boundedText(answer, answerBytes);
      // A refusal is a reply too: full, shutting down, or a model without this kind of request.
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
