// Destination of a run that writes a resumable stream: stores its events, of a run that continues another only what is new.
import { doneMark, FramePieces, frameOf, payloadOf } from "../../../../proto/sse-frames.ts";
import type { AnswerSink, SinkListener } from "../../../inference/answer-sink.ts";
import { type Stitch, StreamDiverged } from "../../../inference/stitch.ts";
import type { StreamRun } from "../../../streams/stream-run.ts";

/** Larger frames, and larger responses that are not streamed, break the response. */
const maxFrameBytes = 4 * 1024 * 1024;
/** Bytes that wait to be stored: above, reading from the instance is paused. */
const maxWaitingBytes = 1024 * 1024;

export class JournalSink implements AnswerSink {
  listener: SinkListener | undefined;
  hasStarted = false;
  isGone: boolean;
  /** The new run generated something else than the ones before. */
  hasDiverged = false;
  /** Message of the error with which the engine or the agent ended the stream. */
  brokenBy: string | undefined;
  readonly #writer: StreamRun;
  readonly #stitch: Stitch | undefined;
  readonly #rest = new FramePieces();
  #turn: Buffer[] = [];
  #isStalled = false;
  /** Response that the engine did not stream. */
  #whole: Buffer[] | undefined;
  #wholeBytes = 0;

  constructor(writer: StreamRun, stitch: Stitch | undefined) {
    this.#writer = writer;
    this.#stitch = stitch;
    this.isGone = writer.isOver;
    writer.onStop = () => this.abandon();
    writer.onStored = () => this.#goOn();
  }

  whole(_status: number, _contentType: string, body: Buffer): void {
    const line = body.toString().replaceAll(/\r?\n/g, " ");
    this.write(Buffer.from(`data: ${line}\n\ndata: ${doneMark}\n\n`));
    this.flush();
  }

  begin(): void {
    this.#whole = [];
  }

  write(chunk: Buffer): void {
    if (this.isGone) return;
    if (this.#whole) {
      this.#whole.push(chunk);
      this.#wholeBytes += chunk.length;
      if (this.#wholeBytes > maxFrameBytes) this.#break("a response above 4 MiB");
      return;
    }
    if (this.#turn.length === 0) process.nextTick(flush, this);
    this.#turn.push(chunk);
  }

  end(): void {
    const whole = this.#whole;
    this.#whole = undefined;
    if (whole) {
      this.whole(200, "application/json", Buffer.concat(whole));
      return;
    }
    this.flush();
    // An engine may omit the last empty line.
    const last = this.#rest.take();
    if (last.length > 0 && !this.isGone) this.#store(this.#newOf(last));
  }

  abandon(): void {
    if (this.isGone) return;
    this.isGone = true;
    this.listener?.clientGone();
  }

  flush(): void {
    const turn = this.#turn;
    if (turn.length === 0 || this.isGone) return;
    this.#turn = [];
    const news: Buffer[] = [];
    this.#rest.split(turn.length === 1 ? (turn[0] as Buffer) : Buffer.concat(turn), (frame) =>
      news.push(...this.#newOf(frame)),
    );
    if (this.#rest.bytes > maxFrameBytes) this.#break("a frame above 4 MiB");
    this.#store(news);
  }

  /** The frame, or what is new of it, or nothing. */
  #newOf(frame: Buffer): Buffer[] {
    const payload = payloadOf(frame);
    if (!payload || this.brokenBy !== undefined || this.hasDiverged) return [];
    if (payload.indexOf('"error"') >= 0 && this.#isError(payload.toString())) return [];
    // Rebuilt, because engines add event names and use other line ends.
    if (!this.#stitch) return [frameOf(payload)];
    try {
      const data = this.#stitch.next(payload.toString());
      return data === undefined ? [] : [frameOf(Buffer.from(data))];
    } catch (error) {
      // JSON that is nested too deep can be read, but not written.
      if (error instanceof StreamDiverged) this.hasDiverged = true;
      else this.#break(String(error));
      return [];
    }
  }

  #store(events: readonly Buffer[]): void {
    if (events.length > 0) this.#writer.append(Buffer.concat(events));
    if (this.hasDiverged) this.abandon();
    else if (this.#writer.waitingBytes > maxWaitingBytes && !this.#isStalled) {
      this.#isStalled = true;
      this.listener?.stalled();
    }
  }

  /** Ends a run whose response cannot be read. After an error of the engine's own, the agent ends it. */
  #break(message: string): void {
    this.brokenBy = message;
    this.abandon();
  }

  #isError(data: string): boolean {
    try {
      const { error } = JSON.parse(data) as { readonly error?: { readonly message?: unknown } };
      if (typeof error !== "object" || error === null) return false;
      this.brokenBy = String(error.message ?? "the model server reported an error");
      return true;
    } catch {
      return false;
    }
  }

  #goOn(): void {
    if (!this.#isStalled || this.#writer.waitingBytes > maxWaitingBytes / 2) return;
    this.#isStalled = false;
    this.listener?.drained();
  }
}

function flush(sink: JournalSink): void {
  sink.flush();
}
