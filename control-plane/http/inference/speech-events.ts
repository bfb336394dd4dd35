// Speech as server-sent events in OpenAI's format: each piece of audio as it arrives, in base64.
import type { AnswerSink } from "../../inference/answer-sink.ts";
import type { ClientSink } from "./client-sink.ts";
import { ForwardingSink } from "./forwarding-sink.ts";
import { dataFrame } from "./translated-stream.ts";

export class SpeechEvents extends ForwardingSink implements AnswerSink {
  readonly #usage: () => object;

  /** `usage`: called at the end. */
  constructor(client: ClientSink, usage: () => object) {
    super(client);
    this.#usage = usage;
  }

  whole(_status: number, _contentType: string, body: Buffer): void {
    this.write(body);
    this.end();
  }

  begin(): void {
    // Headers are sent with the first event.
  }

  write(chunk: Buffer): void {
    if (chunk.length > 0) this.#send({ type: "speech.audio.delta", audio: chunk.toString("base64") });
  }

  end(): void {
    this.#send({ type: "speech.audio.done", usage: this.#usage() });
    this.client.end();
  }

  #send(event: object): void {
    this.client.write(Buffer.from(dataFrame(event)));
  }
}
