// Rewrites the events of a stream on their way to the client, frame by frame.
import type { AnswerSink } from "../../inference/answer-sink.ts";
import type { ClientSink } from "./client-sink.ts";
import { ForwardingSink } from "./forwarding-sink.ts";

/** Rewrites the text after `data:`; undefined drops the event. Must not throw. `[DONE]` and comments pass unchanged. */
export type RewriteEvent = (data: string) => string | undefined;

export class RewrittenStream extends ForwardingSink implements AnswerSink {
  readonly #rewrite: RewriteEvent;
  /** Latin-1, because a character may be split between two chunks. */
  #rest = "";

  constructor(client: ClientSink, rewrite: RewriteEvent) {
    super(client);
    this.#rewrite = rewrite;
  }

  /** Response of an engine that does not stream: one event, in one line. */
  whole(_status: number, _contentType: string, body: Buffer): void {
    this.#frame(`data: ${body.toString().replaceAll(/\r?\n/g, " ")}`);
    this.#frame("data: [DONE]");
    this.end();
  }

  begin(): void {
    // Headers are sent with the first event.
  }

  write(chunk: Buffer): void {
    const frames = (this.#rest + chunk.toString("latin1")).split(frameEnd);
    this.#rest = frames.pop() as string;
    for (const frame of frames) this.#frame(Buffer.from(frame, "latin1").toString());
  }

  end(): void {
    // An engine may omit the last empty line.
    const last = Buffer.from(this.#rest, "latin1").toString().trimEnd();
    this.#rest = "";
    if (last !== "") this.#frame(last);
    this.client.end();
  }

  #frame(frame: string): void {
    const text = /^data: ?(.*)$/s.exec(frame)?.[1];
    const isEvent = text !== undefined && text !== "[DONE]";
    const data = isEvent ? this.#rewrite(text) : undefined;
    if (isEvent && data === undefined) return;
    this.client.write(Buffer.from(`${isEvent ? `data: ${data}` : frame}\n\n`));
  }
}

/** An empty line; some engines use CRLF. */
const frameEnd = /\r?\n\r?\n/;
