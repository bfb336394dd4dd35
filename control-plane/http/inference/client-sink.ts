// Client's side of a relayed response. Bytes that arrive in one turn of the event loop are one write; a client that is slower than
// the engine pauses it.
import type { ServerResponse } from "node:http";
import type { KeptAnswer } from "../../accounts/idempotency.ts";
import type { AnswerSink, SinkListener } from "../../inference/answer-sink.ts";
import { defaultLimits } from "../../inference/attempt.ts";
import { apiHeaders } from "../connections/secure-headers.ts";
import type { BufferedBytes, RequestState } from "../core/request-state.ts";
import { replayed } from "./idempotency.ts";

const streamHeaders = ["content-type", "text/event-stream; charset=utf-8", "x-accel-buffering", "no"];
const newline = 10;

export interface Rewriter {
  flush(): void;
}

export class ClientSink implements AnswerSink {
  listener: SinkListener | undefined;
  /** A sink that rewrites the response: it writes what it holds before bytes or an error are sent. */
  rewriter: Rewriter | undefined;
  hasStarted = false;
  isStream = false;
  readonly sent = undefined;
  readonly #res: ServerResponse;
  readonly #state: RequestState;
  readonly #unreadMs: number;
  #turn: Buffer[] = [];
  #last: Buffer | undefined;
  #isStalled = false;

  /** `unreadMs`: maximum time for a client to read the rest of an ended response. */
  constructor(res: ServerResponse, state: RequestState, unreadMs = defaultLimits.stalledClientMs) {
    this.#res = res;
    this.#state = state;
    this.#unreadMs = unreadMs;
    state.client = this;
  }

  clientGone(): void {
    this.listener?.clientGone();
  }

  get account(): string {
    return this.#state.caller?.account ?? "";
  }

  get isGone(): boolean {
    return this.#state.isClosed;
  }

  whole(status: number, contentType: string, body: Buffer | string): void {
    const length = typeof body === "string" ? Buffer.byteLength(body) : body.length;
    this.#start(status, ["content-type", contentType, "content-length", String(length)]);
    // A string is sent in one write with the headers; Latin-1 keeps every byte.
    if (typeof body === "string") this.#res.end(body, length === body.length ? "latin1" : "utf8");
    else if (length < 65_536) this.#res.end(body.toString("latin1"), "latin1");
    else this.#res.end(body);
    this.#cutUnread();
  }

  /** Sends a stored response again, with a header that says so. */
  again({ status, headers, body }: KeptAnswer): void {
    if (this.isGone) return;
    this.hasStarted = true;
    const length = ["content-length", String(Buffer.byteLength(body))];
    this.#res.writeHead(status, [
      ...headers,
      ...apiHeaders(this.#state.isSecure),
      ...length,
      ...replayed,
      ...this.#state.headers(),
    ]);
    this.#res.end(body);
    this.#cutUnread();
  }

  begin(status: number, contentType: string, contentLength: string | undefined): void {
    const length = contentLength === undefined ? [] : ["content-length", contentLength];
    this.#start(status, ["content-type", contentType, ...length]);
  }

  write(chunk: Buffer): void {
    if (this.#turn.length === 0) process.nextTick(flush, this);
    this.#turn.push(chunk);
  }

  end(): void {
    if (this.isGone) return;
    const rest = this.#take();
    if (!this.hasStarted) this.#openStream();
    if (rest) this.#res.end(rest);
    else this.#res.end();
    this.#cutUnread();
  }

  /** Reports an error after the headers: as frames, then the end without [DONE]. A response that is not a stream is cut. */
  fail(frames: string): void {
    this.flush();
    if (this.isGone) return;
    if (!this.isStream) {
      this.abandon();
      return;
    }
    // The last frame may be incomplete: the client must not read the error as its rest.
    const isCut = this.#last !== undefined && this.#last[this.#last.length - 1] !== newline;
    this.#res.end(`${isCut ? "\n\n" : ""}${frames}`);
  }

  /** Lets go of these bytes when the response has closed. */
  holds(bytes: BufferedBytes): void {
    if (this.isGone) bytes.letGo();
    else this.#state.buffered = bytes;
  }

  abandon(): void {
    this.#res.destroy();
  }

  flush(): void {
    const bytes = this.#take();
    if (!bytes || this.isGone) return;
    if (!this.hasStarted) this.#openStream();
    this.#last = bytes;
    if (this.#res.write(bytes) || this.#isStalled) return;
    this.#isStalled = true;
    this.listener?.stalled();
    this.#res.once("drain", () => {
      this.#isStalled = false;
      this.listener?.drained();
    });
  }

  /** Unsent bytes hold the response and the request's body. The socket's timer restarts with every byte. */
  #cutUnread(): void {
    const res = this.#res;
    if (res.socket?.writableLength !== 0) res.setTimeout(this.#unreadMs, () => res.destroy());
  }

  #take(): Buffer | undefined {
    this.rewriter?.flush();
    const turn = this.#turn;
    if (turn.length === 0) return undefined;
    this.#turn = [];
    return turn.length === 1 ? turn[0] : Buffer.concat(turn);
  }

  #openStream(): void {
    this.isStream = true;
    this.#start(200, streamHeaders);
  }

  #start(status: number, headers: readonly string[]): void {
    this.hasStarted = true;
    const state = this.#state;
    // The state's own array: another one, or a spread of several, would cost as much as the rest of this response.
    const all = state.headers();
    for (const text of headers) all.push(text);
    for (const text of apiHeaders(state.isSecure)) all.push(text);
    if (state.loweredMaxTokens !== undefined) all.push("x-stoker-max-tokens", String(state.loweredMaxTokens));
    this.#res.writeHead(status, all);
  }
}

function flush(sink: ClientSink): void {
  sink.flush();
}
