// Agent's end of a shared connection: requests arrive as frames, and each is handled like one that arrives over HTTP.
import type { Duplex } from "node:stream";
import { BadFrame, FrameSocket, frameKind, readFields } from "../../proto/frames.ts";
import { keepNewest } from "../../proto/keep-newest.ts";
import type { Answer } from "./answer.ts";
import type { Plane } from "./plane.ts";
import type { BodyProblem, ReadBody } from "./read-body.ts";
import { refuse } from "./refuse.ts";
import { SharedAnswer } from "./shared-answer.ts";

interface SharedRequest {
  readonly path: string;
  readonly contentType: string;
  readonly ticket: string;
  readonly answer: Answer;
  readonly readBody: ReadBody;
}

/** Maximum number of ended requests whose reset may still arrive; above it the oldest is forgotten. */
const maxAwaitingReset = 1_000;
const maxStreams = 10_000;

interface Stream {
  readonly answer: SharedAnswer;
  readonly body: SharedBody;
}

export type SharedServer = ReturnType<typeof acceptShared>;

/** `gone` is called once, never before this returns. */
export function acceptShared(
  socket: Duplex,
  first: Buffer,
  plane: Plane,
  handle: (request: SharedRequest) => void,
  gone: () => void,
) {
  const streams = new Map<number, Stream>();
  const ended = new Map<number, SharedAnswer>();
  let isRetired = false;

  function open(id: number, payload: Buffer, isWhole: boolean): void {
    const { fields, rest } = readFields(payload);
    const [path = "", contentType = "", ticket = ""] = fields;
    if (streams.has(id)) throw new BadFrame(`stream ${id} is open already`);
    const body = new SharedBody(plane);
    const answer = new SharedAnswer(frames, id, () => {
      streams.delete(id);
      if (answer.awaitsReset && !answer.isCut) keepNewest(ended, id, answer, maxAwaitingReset);
      body.letGo();
      endIfRetired();
    });
    if (isRetired) {
      refuse(answer, "draining", "a certificate of this connection has expired; open another one", 1);
      return;
    }
    if (streams.size >= maxStreams) {
      refuse(answer, "busy", "this host holds too many requests", 1);
      return;
    }
    streams.set(id, { answer, body });
    body.add(rest);
    if (isWhole) body.end();
    handle({ path, contentType, ticket, answer, readBody: (done) => body.read(done) });
  }

  function reset(id: number): void {
    (streams.get(id)?.answer ?? ended.get(id))?.wasCut();
    ended.delete(id);
  }

  function endIfRetired(): void {
    if (isRetired && streams.size === 0) frames.end();
  }

  const frames: FrameSocket = new FrameSocket(socket, first, {
    frame(kind, id, payload) {
      if (kind === frameKind.wholeRequest) return open(id, payload, true);
      if (kind === frameKind.request) return open(id, payload, false);
      // A frame for an answer that has ended in the meantime is late, not wrong.
      const stream = streams.get(id);
      if (kind === frameKind.data) stream?.body.add(payload);
      else if (kind === frameKind.end) stream?.body.end();
      else if (kind === frameKind.reset) reset(id);
      else if (kind === frameKind.credit && payload.length === 4) stream?.answer.credited(payload.readUInt32BE(0));
      else throw new BadFrame(`a frame of kind ${kind}`);
    },
    drained() {
      for (const { answer } of streams.values()) answer.socketDrained();
    },
    closed(error) {
      plane.log.info({ reason: error.message }, "gateway connection closed");
      for (const { answer } of [...streams.values()]) answer.wasCut();
      ended.clear();
      gone();
    },
  });
  return {
    /** Accepts no new request, and closes once the last answer was sent. */
    retire() {
      isRetired = true;
      endIfRetired();
    },
    /** Closes the connection once everything queued was sent; accepts nothing more. May be called again. */
    end: () => frames.end(),
    cut: () => frames.close(new Error("the agent is shutting down")),
  };
}

/** Collects a request's body. Both the size of each body and the total of all held bodies are bounded. */
class SharedBody {
  readonly #plane: Plane;
  #parts: Buffer[] = [];
  #bytes = 0;
  #isWhole = false;
  #problem: BodyProblem | undefined;
  #done: ((body: Buffer | BodyProblem) => void) | undefined;

  constructor(plane: Plane) {
    this.#plane = plane;
  }

  add(part: Buffer): void {
    if (this.#problem || this.#isWhole) return;
    const { maxBodyBytes, maxHeldBodyBytes } = this.#plane.limits;
    this.#parts.push(part);
    this.#bytes += part.length;
    this.#plane.heldBodyBytes += part.length;
    if (this.#bytes > maxBodyBytes) this.#problem = "too_large";
    else if (this.#plane.heldBodyBytes > maxHeldBodyBytes) this.#problem = "busy";
    if (!this.#problem) return;
    this.letGo();
    this.#notify();
  }

  end(): void {
    this.#isWhole = true;
    this.#notify();
  }

  /** From here on the reader subtracts the bytes from those held. */
  read(done: (body: Buffer | BodyProblem) => void): void {
    this.#done = done;
    this.#notify();
  }

  letGo(): void {
    this.#plane.heldBodyBytes -= this.#bytes;
    this.#bytes = 0;
    this.#parts = [];
  }

  #notify(): void {
    const done = this.#done;
    if (!done || !(this.#isWhole || this.#problem)) return;
    this.#done = undefined;
    if (this.#problem) {
      done(this.#problem);
      return;
    }
    const body = this.#parts.length === 1 ? (this.#parts[0] as Buffer) : Buffer.concat(this.#parts);
    this.#bytes = 0;
    this.#parts = [];
    done(body);
  }
}
