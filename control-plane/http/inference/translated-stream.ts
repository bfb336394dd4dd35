// Translates the events of a stream on their way to the client, frame by frame.
import type { AnswerSink } from "../../inference/answer-sink.ts";
import type { ClientSink } from "./client-sink.ts";
import { ForwardingSink } from "./forwarding-sink.ts";

/** Translation of one stream. Returns complete frames, or "" for none. Must not throw. */
export interface StreamTranslation {
  /** `data`: the text after `data:` of one event, `[DONE]` included. */
  event(data: string): string;
  /** Frames after the last event of a response that ended as it should. A promise must not reject. */
  end(): string | Promise<string>;
}

/** A frame without a name. */
export const dataFrame = (data: object): string => `data: ${JSON.stringify(data)}\n\n`;

/** A frame with the name of its event. */
export const namedFrame = (event: string, data: object): string => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;

/** Comments, which keep the connection of a waiting client alive, pass unchanged. */
export class TranslatedStream extends ForwardingSink implements AnswerSink {
  readonly #translation: StreamTranslation;
  /** Latin-1, because a character may be split between two chunks. */
  #rest = "";

  constructor(client: ClientSink, translation: StreamTranslation) {
    super(client);
    this.#translation = translation;
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
    const frames = this.#translation.end();
    if (frames instanceof Promise) this.sent = frames.then((late) => this.#finish(late));
    else this.#finish(frames);
  }

  #finish(frames: string): void {
    this.#send(frames);
    this.client.end();
  }

  #frame(frame: string): void {
    const data = /^data: ?(.*)$/s.exec(frame)?.[1];
    this.#send(data === undefined ? `${frame}\n\n` : this.#translation.event(data));
  }

  #send(frames: string): void {
    if (frames !== "") this.client.write(Buffer.from(frames));
  }
}

/** An empty line; some engines use CRLF. */
const frameEnd = /\r?\n\r?\n/;

/** Rewrites the text after `data:`; undefined drops the event. Must not throw. */
export type RewriteEvent = (data: string) => string | undefined;

/** Rewrites each event by itself; `[DONE]` passes unchanged. */
export const rewriting = (rewrite: RewriteEvent): StreamTranslation => ({
  event: (data) => {
    const rewritten = data === "[DONE]" ? data : rewrite(data);
    return rewritten === undefined ? "" : `data: ${rewritten}\n\n`;
  },
  end: () => "",
});
