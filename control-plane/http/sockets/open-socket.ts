// One WebSocket of a client with a valid credential: messages out with a bound on those that it has not read, and inference requests
// through the spine, one at a time. Every request is checked, held, billed and logged like an HTTP request.
import { EventEmitter } from "node:events";
import type { IncomingHttpHeaders } from "node:http";
import type { WebSocket } from "ws";
import { randomId } from "../../../proto/ids.ts";
import type { Caller } from "../../accounts/caller.ts";
import type { AnswerSink, SinkListener } from "../../inference/answer-sink.ts";
import type { ByteBudget } from "../../inference/byte-budget.ts";
import { complete, type Spine } from "../../inference/complete.ts";
import type { Completion, Trace } from "../../inference/completion.ts";
import type { RouteMeter } from "../core/edge-metrics.ts";
import { type BufferedBytes, type ClosingResponse, RequestState, type StateDeps } from "../core/request-state.ts";
import type { Dialect, Refusal } from "../errors/error-body.ts";
import { refusalOf } from "../errors/render-error.ts";

/** Bytes of messages that the client has not read: above the first, requests pause; above the second, it is disconnected. */
const maxUnreadBytes = 256 * 1024;
const unreadCutBytes = 4 * 1024 * 1024;

export interface SocketDeps extends StateDeps {
  readonly spine: Spine;
}

export interface Handshake {
  readonly caller: Caller;
  /** Position of the caller in the order of changes. */
  readonly since: number;
  readonly headers: IncomingHttpHeaders;
  /** The client's, behind trusted proxies. */
  readonly address: string;
  readonly isSecure: boolean;
  readonly meter: RouteMeter;
  readonly dialect: Dialect;
}

/** How a request ended; `refusal` undefined: with a response, or because the client disconnected. */
export interface Turn {
  readonly trace: Trace;
  readonly refusal: Refusal | undefined;
}

export class OpenSocket {
  readonly id = randomId(20);
  caller: Caller;
  since: number;
  /** Monotonic ms. */
  stalledAtMs: number | undefined;
  turns = 0;
  readonly #ws: WebSocket;
  readonly #deps: SocketDeps;
  readonly #handshake: Handshake;
  #turn: { readonly response: TurnResponse; readonly sink: TurnSink } | undefined;

  constructor(ws: WebSocket, deps: SocketDeps, handshake: Handshake) {
    this.#ws = ws;
    this.#deps = deps;
    this.#handshake = handshake;
    this.caller = handshake.caller;
    this.since = handshake.since;
    ws.once("close", () => this.#turn?.response.gone());
  }

  get isOpen(): boolean {
    return this.#ws.readyState === this.#ws.OPEN;
  }

  get bodies(): ByteBudget {
    return this.#deps.bodies;
  }

  get spine(): Spine {
    return this.#deps.spine;
  }

  send(message: object): void {
    const ws = this.#ws;
    if (!this.isOpen) return;
    ws.send(JSON.stringify(message), () => this.#resume());
    const unread = ws.bufferedAmount;
    if (unread > unreadCutBytes) ws.terminate();
    else if (unread > maxUnreadBytes && this.stalledAtMs === undefined) {
      this.stalledAtMs = performance.now();
      // Its messages would cause more responses.
      ws.pause();
      this.#turn?.sink.listener?.stalled();
    }
  }

  /** Sends the closing frame; a client that does not complete the handshake is disconnected. `reason`: at most 123 bytes. */
  close(code: number, reason: string): void {
    closeSocket(this.#ws, code, reason);
  }

  terminate(): void {
    this.#ws.terminate();
  }

  /** Stops reading messages until `resume`. */
  pause(): void {
    this.#ws.pause();
  }

  resume(): void {
    if (this.stalledAtMs === undefined) this.#ws.resume();
  }

  /** Checks the credential again, and closes a session whose credential no longer allows inference. Throws the reason. */
  async check(): Promise<void> {
    const { standing } = this.#deps.spine;
    if (!standing) return;
    const since = standing.now();
    try {
      this.caller = await standing.again(this.caller, this.since, this.#handshake.address);
      this.since = since;
    } catch (error) {
      const { kind, code } = refusalOf(error);
      if (kind === "unauthenticated" || kind === "forbidden") this.close(policyViolation, code);
      throw error;
    }
  }

  /**
   * Runs one request. `through`: wraps the sink; `onBytes`: receives what the wrapped sink writes. Never rejects. A client whose
   * credential is no longer valid is disconnected.
   */
  async run(
    completion: Completion,
    onBytes: (bytes: Buffer) => void,
    through: (sink: TurnSink) => AnswerSink = (sink) => sink,
  ): Promise<Turn> {
    const { meter, dialect, headers, address, isSecure } = this.#handshake;
    const response = new TurnResponse();
    const state = new RequestState(this.#deps, meter, dialect, randomId(24), headers, response);
    const sink = new TurnSink(state, onBytes, () => this.terminate());
    state.address = address;
    state.isSecure = isSecure;
    state.caller = this.caller;
    state.operation = completion.kind;
    state.isInference = true;
    state.namedModel = completion.model;
    state.isStream = true;
    state.client = sink;
    this.turns += 1;
    this.#turn = { response, sink };
    try {
      await this.check();
      state.caller = this.caller;
      if (this.isOpen) await complete(this.#deps.spine, this.caller, completion, through(sink), state);
      else response.gone();
    } catch (error) {
      state.refusal = refusalOf(error);
    }
    this.#turn = undefined;
    response.end(state.refusal?.status ?? 200);
    const { refusal } = state;
    if (refusal?.kind === "unauthenticated") this.close(policyViolation, refusal.code);
    return { trace: state, refusal };
  }

  #resume(): void {
    if (this.stalledAtMs === undefined || this.#ws.bufferedAmount > maxUnreadBytes / 2) return;
    this.stalledAtMs = undefined;
    this.#ws.resume();
    this.#turn?.sink.listener?.drained();
  }
}

/** Status codes of RFC 6455. */
export const goingAway = 1001;
export const policyViolation = 1008;
export const serverError = 1011;
export const tryAgainLater = 1013;

/** Sends the closing frame, and reads again what a paused client sends until its own. */
export function closeSocket(ws: WebSocket, code: number, reason: string): void {
  ws.resume();
  ws.close(code, reason);
}

/** The end of a request without an HTTP response, as RequestState observes it. */
class TurnResponse extends EventEmitter implements ClosingResponse {
  headersSent = false;
  statusCode = 200;
  writableFinished = false;
  #isClosed = false;

  end(status: number): void {
    this.headersSent = true;
    this.statusCode = status;
    this.writableFinished = true;
    this.#close();
  }

  gone(): void {
    this.#close();
  }

  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.emit("close");
  }
}

class TurnSink implements AnswerSink {
  listener: SinkListener | undefined;
  hasStarted = false;
  readonly #state: RequestState;
  readonly #onBytes: (bytes: Buffer) => void;
  readonly #abandon: () => void;

  constructor(state: RequestState, onBytes: (bytes: Buffer) => void, abandon: () => void) {
    this.#state = state;
    this.#onBytes = onBytes;
    this.#abandon = abandon;
  }

  get isGone(): boolean {
    return this.#state.isClosed;
  }

  get account(): string {
    return this.#state.caller?.account ?? "";
  }

  clientGone(): void {
    this.listener?.clientGone();
  }

  /** Lets go of these bytes when the request has ended. */
  holds(bytes: BufferedBytes): void {
    if (this.isGone) bytes.letGo();
    else this.#state.buffered = bytes;
  }

  whole(_status: number, _contentType: string, body: Buffer): void {
    this.write(body);
  }

  begin(): void {
    this.hasStarted = true;
  }

  write(chunk: Buffer): void {
    this.hasStarted = true;
    if (!this.isGone && chunk.length > 0) this.#onBytes(chunk);
  }

  end(): void {}

  abandon(): void {
    this.#abandon();
  }
}
