// Streamed completions of an OpenAI-compatible engine, with times: what profiles of the simulator are measured by.
import { Pool } from "undici";

export interface EngineAddress {
  readonly origin: string;
  /** Served model name. */
  readonly model: string;
}

export interface Completed {
  readonly text: string;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
  /** From sending the request to the first token. */
  readonly ttftMs: number;
  /** Mean time between tokens; 0 with one token. */
  readonly tokenMs: number;
}

export interface EngineClient {
  /** Generates exactly `outputTokens`. Throws when the engine responds with an error. */
  complete(prompt: string, outputTokens: number): Promise<Completed>;
  close(): Promise<void>;
}

interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null;
}

/** `clock`: milliseconds that count. */
export function connectEngine({ origin, model }: EngineAddress, clock: () => number): EngineClient {
  const pool = new Pool(origin, { connections: 64, bodyTimeout: 120_000, headersTimeout: 120_000 });
  return {
    async complete(prompt, outputTokens) {
      const sentAtMs = clock();
      const { statusCode, body } = await pool.request({
        method: "POST",
        path: "/v1/completions",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({
          model,
          prompt,
          max_tokens: outputTokens,
          temperature: 0.8,
          ignore_eos: true,
          stream: true,
          stream_options: { include_usage: true },
        }),
      });
      if (statusCode !== 200) throw new Error(`The engine responded ${statusCode}: ${await body.text()}`);
      let firstAtMs = 0;
      let lastAtMs = 0;
      let received = "";
      for await (const chunk of body.setEncoding("utf8")) {
        const text = String(chunk);
        received += text;
        // The chunk with the usage alone is no token.
        if (!/"text":/.test(text)) continue;
        lastAtMs = clock();
        if (firstAtMs === 0) firstAtMs = lastAtMs;
      }
      const events = received
        .split("\n")
        .filter((line) => line.startsWith("data: {"))
        .map((line) => JSON.parse(line.slice("data: ".length)));
      const usage: Usage | undefined = events.findLast((event) => event.usage)?.usage;
      if (!usage) throw new Error("The engine reports no usage in its streams.");
      const { prompt_tokens: promptTokens, completion_tokens: tokens } = usage;
      return {
        text: events.map((event) => event.choices?.[0]?.text ?? "").join(""),
        promptTokens,
        cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
        outputTokens: tokens,
        ttftMs: firstAtMs - sentAtMs,
        tokenMs: tokens > 1 ? (lastAtMs - firstAtMs) / (tokens - 1) : 0,
      };
    },
    close: () => pool.destroy(),
  };
}

// Each is one token of common tokenizers, with the space before it.
const words =
  "time people way day man thing woman life child world school state family student group country problem hand part place case week company system program question work government number night point home water room mother area money story fact month lot right study book eye job word business issue side kind head house service friend father power hour game line end member law car city community name president team minute idea body information back parent face others level office door health person art war history party result change morning reason research girl guy moment air teacher force education".split(
    " ",
  );

/** Returns text of about as many tokens, the same for the same `random` numbers. */
export const textOf = (tokens: number, random: () => number): string =>
  Array.from({ length: Math.max(1, Math.round(tokens)) }, () => ` ${words[Math.floor(random() * words.length)]}`).join(
    "",
  );
