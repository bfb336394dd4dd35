// A stream of completions as native inference gives it: one event per token, the last with the whole text.
import type { AnswerSink, SinkListener } from "../../inference/answer-sink.ts";
import type { ClientSink } from "../client-sink.ts";

interface Chunk {
  readonly choices?: readonly {
    readonly index?: number;
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

export class TokenStream implements AnswerSink {
  readonly #client: ClientSink;
  readonly #seed: unknown;
  #rest = "";
  #text = "";
  #tokens = 0;

  constructor(client: ClientSink, seed: unknown) {
    this.#client = client;
    this.#seed = seed;
  }

  get hasStarted(): boolean {
    return this.#client.hasStarted;
  }

  get isGone(): boolean {
    return this.#client.isGone;
  }

  set listener(listener: SinkListener | undefined) {
    this.#client.listener = listener;
  }

  get listener(): SinkListener | undefined {
    return this.#client.listener;
  }

  /** An engine that does not stream. */
  whole(_status: number, _contentType: string, body: Buffer): void {
    this.write(Buffer.from(`data: ${body.toString()}\n\ndata: [DONE]\n\n`));
    this.end();
  }

  begin(): void {
    // Headers leave with the first event.
  }

  write(chunk: Buffer): void {
    const frames = (this.#rest + chunk.toString("latin1")).split("\n\n");
    this.#rest = frames.pop() as string;
    for (const frame of frames) this.#frame(Buffer.from(frame, "latin1").toString());
  }

  end(): void {
    this.#client.end();
  }

  abandon(): void {
    this.#client.abandon();
  }

  #frame(frame: string): void {
    if (!frame.startsWith("data: ")) {
      this.#client.write(Buffer.from(`${frame}\n\n`));
      return;
    }
    const data = frame.slice(6);
    if (data === "[DONE]") {
      this.#client.write(Buffer.from("data: [DONE]\n\n"));
      return;
    }
    const { choices = [], usage, error } = JSON.parse(data) as Chunk;
    if (error) {
      this.#send({ error_type: error.code ?? "engine_error", error_message: error.message ?? "the engine failed" });
      return;
    }
    const [choice] = choices;
    if (!choice) return;
    const { text = "", logprobs, finish_reason: reason } = choice;
    if (text !== "") {
      this.#text += text;
      this.#tokens += Math.max(1, logprobs?.tokens?.length ?? 1);
    }
    if (text === "" && !reason) return;
    const ended = reason
      ? { finish_reason: reason, generated_tokens: usage?.completion_tokens ?? this.#tokens, seed: this.#seed ?? null }
      : null;
    const id = Number(logprobs?.tokens?.at(-1)?.split(":")[1] ?? 0);
    this.#send({
      token: {
        id: Number.isSafeInteger(id) ? id : 0,
        text,
        logprob: logprobs?.token_logprobs?.at(-1) ?? null,
        special: text === "",
      },
      generated_text: reason ? this.#text : null,
      details: ended,
    });
  }

  #send(event: object): void {
    this.#client.write(Buffer.from(`data: ${JSON.stringify(event)}\n\n`));
  }
}
