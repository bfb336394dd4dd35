// The client's side of a relayed answer. What one event-loop turn brings leaves as one write; a reader that is slower than
// the engine pauses it.
import type { ServerResponse } from "node:http";
import type { KeptAnswer } from "../../accounts/idempotency.ts";
import type { AnswerSink, SinkListener } from "../../inference/answer-sink.ts";
import { defaultLimits } from "../../inference/attempt.ts";
import { apiHeaders } from "../connections/secure-headers.ts";
import type { RequestState } from "../core/request-state.ts";
import { replayed } from "./idempotency.ts";

const streamHeaders = ["content-type", "text/event-stream; charset=utf-8", "x-accel-buffering", "no"];
const newline = 10;

export class ClientSink implements AnswerSink {
  listener: SinkListener | undefined;
  hasStarted = false;
  isStream = false;
  readonly #res: ServerResponse;
  readonly #state: RequestState;
  readonly #unreadMs: number;
  #turn: Buffer[] = [];
  #last: Buffer | undefined;
  #isStalled = false;

  /** `unreadMs`: a client that reads nothing for so long of what has ended is cut. */
  constructor(res: ServerResponse, state: RequestState, unreadMs = defaultLimits.stalledClientMs) {
    this.#res = res;
    this.#state = state;
    this.#unreadMs = unreadMs;
    state.onGone = () => this.listener?.clientGone();
  }

  get account(): string {
    return this.#state.caller?.account ?? "";
  }

  get isGone(): boolean {
    return this.#state.isClosed;
  }

  whole(status: number, contentType: string, body: Buffer): void {
    this.#start(status, ["content-type", contentType, "content-length", String(body.length)]);
    // As a string head and body leave in one piece; Latin-1 keeps every byte.
    if (body.length < 65_536) this.#res.end(body.toString("latin1"), "latin1");
    else this.#res.end(body);
    this.#cutUnread();
  }

  /** What was given before, and marked as that. */
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

  /** An error after the headers: a frame of its own, then the end, without [DONE]. A broken complete answer is cut. */
  fail(frame: object): void {
    this.flush();
    if (this.isGone) return;
    if (!this.isStream) {
      this.abandon();
      return;
    }
    // The last frame may have come in part: the client must not read the error as its rest.
    const isCut = this.#last !== undefined && this.#last[this.#last.length - 1] !== newline;
    this.#res.end(`${isCut ? "\n\n" : ""}data: ${JSON.stringify(frame)}\n\n`);
  }

  /** `done` is called once, when the response has closed. */
  atEnd(done: () => void): void {
    if (this.isGone) done();
    else this.#state.onEnd = done;
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

  /** What has not left yet holds its answer, and its request's body. The socket's own timer begins anew with every byte. */
  #cutUnread(): void {
    const res = this.#res;
    if (res.socket?.writableLength !== 0) res.setTimeout(this.#unreadMs, () => res.destroy());
  }

  #take(): Buffer | undefined {
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
    const lowered = this.#state.loweredMaxTokens;
    const extra = lowered === undefined ? [] : ["x-stoker-max-tokens", String(lowered)];
    this.#res.writeHead(status, [...headers, ...apiHeaders(this.#state.isSecure), ...this.#state.headers(), ...extra]);
  }
}

function flush(sink: ClientSink): void {
  sink.flush();
}
