// Translates the events of a stream on their way to the client. Events that arrive in one turn of the event loop are translated
// together, which takes a third less time per event than one by one.

import { FramePieces } from "../../../proto/sse-frames.ts";
import type { AnswerSink } from "../../inference/answer-sink.ts";
import { upstreamBroken } from "../../inference/errors.ts";
import { type AnswerFlow, AnswerShare, type ResponseBuffer } from "../../inference/response-buffer.ts";
import type { ServiceError } from "../../service-error.ts";
import type { ClientSink } from "./client-sink.ts";
import { ForwardingSink } from "./forwarding-sink.ts";

/**
 * Translation of one stream. Returns complete frames, or "" for none. Must not throw. Without getters: V8 creates a hidden class
 * for each object literal with one, and that keeps the stream until the next full collection.
 */
export interface StreamTranslation {
  /** `data`: the text after `data:` of one event, `[DONE]` included. */
  event(data: string): string;
  /**
   * Reads the events from index `from` on that it combines, up to the first other one. Returns the index after the last of them.
   * `frames`: whole ones. Undefined: it combines none.
   */
  texts?(frames: string, from: number): number;
  /** Frames of events that it has combined; called when no other event is at hand. */
  flush?(): string;
  /** Bytes that it keeps of the response for later events; undefined: none. */
  keptBytes?(): number;
  /** A response of which more is kept breaks; undefined: the tokens of its request limit it. */
  readonly maxKeptBytes?: number;
  /** Frames after the last event of a response that ended as it should. A promise must not reject. */
  end(): string | Promise<string>;
}

/** A frame without a name. */
export const dataFrame = (data: object): string => `data: ${JSON.stringify(data)}\n\n`;

/** A frame with the name of its event. */
export const namedFrame = (event: string, data: object): string => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;

/** Destination of a translated stream. */
type StreamClient = AnswerSink & Pick<ClientSink, "account" | "holds"> & Partial<Pick<ClientSink, "rewriter">>;

/** A long transcript may be one event. Larger frames break the response. */
const maxFrameBytes = 4 * 1024 * 1024;
const countedBlock = 1024;

/** Comments, which keep the connection of a waiting client alive, pass unchanged. Names of an engine's events do not. */
export class TranslatedStream extends ForwardingSink<StreamClient> implements AnswerSink, AnswerFlow {
  readonly #translation: StreamTranslation;
  readonly #share: AnswerShare | undefined;
  #countedBytes = 0;
  #isOver = false;
  /** Bytes that arrived in this turn of the event loop. */
  #turn: Buffer[] = [];
  /** Bytes of a frame that has not ended; a character may be split at their end. */
  readonly #rest = new FramePieces();

  /** `buffer`: memory budget for what the translation keeps; undefined: it keeps nothing. */
  constructor(client: StreamClient, translation: StreamTranslation, buffer?: ResponseBuffer) {
    super(client);
    this.#translation = translation;
    client.rewriter = this;
    if (!buffer) return;
    this.#share = new AnswerShare(buffer, client.account, this);
    client.holds(this.#share);
  }

  pause(): void {
    this.listener?.stalled();
  }

  resume(): void {
    this.listener?.drained();
  }

  /** Response of an engine that does not stream: one event, in one line. */
  whole(_status: number, _contentType: string, body: Buffer): void {
    const data = body.toString().replaceAll(/\r?\n/g, " ");
    this.#send(this.#translated(`data: ${data}`) + this.#translated("data: [DONE]"));
    this.end();
  }

  begin(): void {
    // Headers are sent with the first event.
  }

  write(chunk: Buffer): void {
    if (this.#isOver) return;
    if (this.#turn.length === 0) process.nextTick(flush, this);
    this.#turn.push(chunk);
  }

  flush(): void {
    const turn = this.#turn;
    if (turn.length === 0) return;
    this.#turn = [];
    const arrived = turn.length === 1 ? (turn[0] as Buffer) : Buffer.concat(turn);
    // Chunks mostly end with a frame: nothing is kept, and their pieces are not searched.
    if (this.#rest.bytes === 0 && arrived.at(-1) === newline && arrived.at(-2) === newline) {
      this.#translate(arrived, arrived.length);
      return;
    }
    const bytes = this.#rest.add(arrived);
    if (bytes) {
      const end = endOfFrames(bytes);
      this.#rest.keep(bytes.subarray(end));
      this.#translate(bytes, end);
    }
    if (this.#rest.bytes > maxFrameBytes) this.giveUp(upstreamBroken({ cause: new Error("a frame above 4 MiB") }));
  }

  /** `end`: of the last frame that has ended. */
  #translate(bytes: Buffer, end: number): void {
    const translation = this.#translation;
    const given = withLf(bytes.toString("utf8", 0, end));
    let frames = "";
    for (let at = 0; !this.#isOver; ) {
      if (translation.texts) at = translation.texts(given, at);
      const next = given.indexOf("\n\n", at);
      if (next < 0) break;
      if (next > at) frames += this.#translated(given.slice(at, next));
      at = next + 2;
    }
    if (translation.flush && !this.#isOver) frames += translation.flush();
    this.#send(frames);
    this.#count();
  }

  end(): void {
    this.flush();
    if (this.#isOver) return;
    // An engine may omit the last empty line.
    const last = this.#rest.take().toString().trimEnd();
    if (last !== "") this.#send(this.#translated(last));
    this.#share?.whole();
    try {
      const frames = this.#translation.end();
      if (frames instanceof Promise) this.sent = frames.then((late) => this.#finish(late));
      else this.#finish(frames);
    } catch (error) {
      // As in #translated.
      this.giveUp(upstreamBroken({ cause: error }));
    }
  }

  giveUp(error: ServiceError): void {
    this.#isOver = true;
    this.#turn = [];
    this.#rest.take();
    const { listener } = this;
    if (listener) listener.dropped(error);
    else this.abandon();
  }

  #count(): void {
    const bytes = this.#translation.keptBytes?.() ?? 0;
    if (bytes > (this.#translation.maxKeptBytes ?? Number.POSITIVE_INFINITY))
      this.giveUp(upstreamBroken({ cause: new Error("the response is too long") }));
    if (!this.#share || bytes <= this.#countedBytes) return;
    // In blocks: most events keep a few bytes.
    const counted = Math.ceil(bytes / countedBlock) * countedBlock;
    this.#share.add(counted - this.#countedBytes);
    this.#countedBytes = counted;
  }

  #finish(frames: string): void {
    this.#send(frames);
    this.client.end();
  }

  #translated(frame: string): string {
    if (this.#isOver) return "";
    const data = frame.startsWith("data:") ? frame.slice(frame[5] === " " ? 6 : 5) : dataLine.exec(frame)?.[1];
    // A name without data is no event.
    if (data === undefined) return frame.startsWith(":") ? `${frame}\n\n` : "";
    try {
      return this.#translation.event(data);
    } catch (error) {
      // JSON that is nested too deep can be read, but not written. Other requests share the connection that this would end.
      this.giveUp(upstreamBroken({ cause: error }));
      return "";
    }
  }

  #send(frames: string): void {
    if (frames !== "") this.client.write(Buffer.from(frames));
  }
}

function flush(stream: TranslatedStream): void {
  stream.flush();
}

/** Index after the last frame that has ended: at an empty line. Some engines use CRLF. */
function endOfFrames(bytes: Buffer): number {
  const lf = bytes.lastIndexOf("\n\n");
  const crlf = bytes.lastIndexOf("\n\r\n");
  return Math.max(lf < 0 ? 0 : lf + 2, crlf < 0 ? 0 : crlf + 3);
}

const newline = 10;
/** Data of a frame that begins with another field. */
const dataLine = /^data: ?(.*)$/m;

const withLf = (text: string): string => (text.includes("\r") ? text.replaceAll("\r\n", "\n") : text);

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
