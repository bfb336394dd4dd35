// The agent's end of a shared connection: requests come as frames, each is handed on as one that came over HTTP would be.
import type { Duplex } from "node:stream";
import { BadFrame, FrameSocket, frameKind, readFields } from "../../proto/frames.ts";
import type { Answer } from "./answer.ts";
import type { Plane } from "./plane.ts";
import type { BodyProblem, ReadBody } from "./read-body.ts";
import { refuse } from "./refuse.ts";
import { SharedAnswer } from "./shared-answer.ts";

export interface SharedRequest {
  readonly path: string;
  readonly contentType: string;
  readonly ticket: string;
  readonly answer: Answer;
  readonly readBody: ReadBody;
}

/** Requests open at once on one connection. */
const mostStreams = 10_000;

interface Stream {
  readonly answer: SharedAnswer;
  readonly body: SharedBody;
}

export interface SharedServer {
  /** Takes no new request, and closes once the last answer has left. */
  retire(): void;
  /** Closes it once everything queued has left; nothing more is taken. May be called again. */
  end(): void;
  cut(): void;
}

/** `gone` is called once, never before this returns. */
export function acceptShared(
  socket: Duplex,
  first: Buffer,
  plane: Plane,
  handle: (request: SharedRequest) => void,
  gone: () => void,
): SharedServer {
  const streams = new Map<number, Stream>();
  let isRetired = false;

  function open(id: number, payload: Buffer, isWhole: boolean): void {
    const { fields, rest } = readFields(payload);
    const [path = "", contentType = "", ticket = ""] = fields;
    if (streams.has(id)) throw new BadFrame(`stream ${id} is open already`);
    const body = new SharedBody(plane);
    const answer = new SharedAnswer(frames, id, () => {
      streams.delete(id);
      body.letGo();
      endIfRetired();
    });
    if (isRetired) {
      refuse(answer, "draining", "a certificate of this connection has expired; open another one", 1);
      return;
    }
    if (streams.size >= mostStreams) {
      refuse(answer, "busy", "this host holds too many requests", 1);
      return;
    }
    streams.set(id, { answer, body });
    body.add(rest);
    if (isWhole) body.end();
    handle({ path, contentType, ticket, answer, readBody: (done) => body.read(done) });
  }

  function endIfRetired(): void {
    if (isRetired && streams.size === 0) frames.end();
  }

  const frames: FrameSocket = new FrameSocket(socket, first, {
    frame(kind, id, payload) {
      if (kind === frameKind.wholeRequest) return open(id, payload, true);
      if (kind === frameKind.request) return open(id, payload, false);
      // What concerns an answer that ended meanwhile is late, not wrong.
      const stream = streams.get(id);
      if (kind === frameKind.data) stream?.body.add(payload);
      else if (kind === frameKind.end) stream?.body.end();
      else if (kind === frameKind.reset) stream?.answer.wasCut();
      else if (kind === frameKind.credit && payload.length === 4) stream?.answer.credited(payload.readUInt32BE(0));
      else throw new BadFrame(`a frame of kind ${kind}`);
    },
    drained() {
      for (const { answer } of streams.values()) answer.socketDrained();
    },
    closed(error) {
      plane.log.info({ reason: error.message }, "a gateway's connection ended");
      for (const { answer } of [...streams.values()]) answer.wasCut();
      gone();
    },
  });
  return {
    retire() {
      isRetired = true;
      endIfRetired();
    },
    end: () => frames.end(),
    cut: () => frames.close(new Error("the agent is shutting down")),
  };
}

/** A request's body as it comes. What all requests hold together is bounded as well as what each one holds. */
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
    this.#tell();
  }

  end(): void {
    this.#isWhole = true;
    this.#tell();
  }

  /** From here on its bytes are the reader's to take off what is held. */
  read(done: (body: Buffer | BodyProblem) => void): void {
    this.#done = done;
    this.#tell();
  }

  letGo(): void {
    this.#plane.heldBodyBytes -= this.#bytes;
    this.#bytes = 0;
    this.#parts = [];
  }

  #tell(): void {
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
