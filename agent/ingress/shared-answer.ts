// An answer as a stream of a shared connection.
import { answerWindow, type FrameSocket, frameKind, maxPayload, withFields } from "../../proto/frames.ts";
import type { Answer } from "./answer.ts";

const noBytes = Buffer.alloc(0);
const headOf = (contentType: string) => withFields(["200", "content-type", contentType], noBytes);
const eventStream = headOf("text/event-stream; charset=utf-8");

export class SharedAnswer implements Answer {
  hasStarted = false;
  status = 200;
  isCut = false;
  isClosed = false;
  readonly #socket: FrameSocket;
  readonly #stream: number;
  /** Bytes that the gateway has not yet acknowledged. */
  #underWay = 0;
  #streamHead = eventStream;
  #drained: (() => void) | undefined;
  #listeners: (() => void)[] = [];
  #abandoned: (() => void) | undefined;
  #left: () => void;

  constructor(socket: FrameSocket, stream: number, left: () => void) {
    this.#socket = socket;
    this.#stream = stream;
    this.#left = left;
  }

  onClose(listener: () => void): void {
    this.#listeners.push(listener);
  }

  onAbandoned(listener: (() => void) | undefined): void {
    this.#abandoned = listener;
  }

  /** A reset that comes after the close still matters. */
  get awaitsReset(): boolean {
    return this.#abandoned !== undefined;
  }

  whole(status: number, headers: readonly string[], body: Buffer): void {
    if (this.hasStarted || this.isClosed) return;
    this.hasStarted = true;
    this.status = status;
    const fields = [String(status), ...headers];
    if (body.length <= maxPayload) this.#socket.send(frameKind.whole, this.#stream, withFields(fields, body));
    else {
      this.#socket.send(
        frameKind.head,
        this.#stream,
        withFields([...fields, "content-length", String(body.length)], noBytes),
      );
      this.#data(body);
      this.#socket.send(frameKind.end, this.#stream);
    }
    this.#close();
  }

  begin(contentType: string): void {
    this.#streamHead = headOf(contentType);
  }

  write(pieces: readonly Buffer[], drained: () => void): boolean {
    if (this.isClosed) return true;
    this.#head();
    let hasSpace = true;
    for (const piece of pieces) hasSpace = this.#data(piece);
    if (hasSpace && this.#underWay <= answerWindow) return true;
    this.#drained = drained;
    return false;
  }

  end(last: Buffer, usage: string | undefined): void {
    if (this.isClosed) return;
    this.#head();
    if (last.length > 0) this.#data(last);
    const fields = usage === undefined ? noBytes : Buffer.from(usage, "latin1");
    this.#socket.send(frameKind.end, this.#stream, fields);
    this.#close();
  }

  cut(): void {
    if (this.isClosed) return;
    this.#socket.send(frameKind.reset, this.#stream);
    this.isCut = true;
    this.#close();
  }

  /** The gateway abandoned the request, or the connection is closed. */
  wasCut(): void {
    const abandoned = this.#abandoned;
    this.#abandoned = undefined;
    if (!this.isClosed) {
      this.isCut = true;
      this.#close();
    }
    abandoned?.();
  }

  credited(bytes: number): void {
    this.#underWay -= bytes;
    this.socketDrained();
  }

  socketDrained(): void {
    const drained = this.#drained;
    if (!drained || this.#underWay > answerWindow) return;
    this.#drained = undefined;
    drained();
  }

  #head(): void {
    if (this.hasStarted) return;
    this.hasStarted = true;
    this.#socket.send(frameKind.head, this.#stream, this.#streamHead);
  }

  #data(bytes: Buffer): boolean {
    this.#underWay += bytes.length;
    let hasSpace = true;
    for (let at = 0; at < bytes.length; at += maxPayload)
      hasSpace = this.#socket.send(frameKind.data, this.#stream, bytes.subarray(at, at + maxPayload));
    return hasSpace;
  }

  #close(): void {
    this.isClosed = true;
    this.#drained = undefined;
    this.#left();
    for (const listener of this.#listeners) listener();
    // Refers to nothing of the request any more: see proto/slot-list.ts for what tables keep.
    this.#left = () => {};
    this.#listeners = [];
  }
}
