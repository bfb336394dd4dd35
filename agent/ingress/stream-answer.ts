// Client side of a stream: sends the bytes of one event-loop turn as one write, and pauses the engine while the client reads
// more slowly.
import type { Answer } from "./answer.ts";

export interface Source {
  pause(): void;
  resume(): void;
}

export class StreamAnswer {
  /** The client has not read all written bytes: the engine is paused. */
  isStalled = false;
  readonly #answer: Answer;
  readonly #source: Source;
  #turn: Buffer[] = [];

  constructor(answer: Answer, source: Source) {
    this.#answer = answer;
    this.#source = source;
  }

  /** Sent together with the other bytes of this turn. */
  write(bytes: Buffer): void {
    if (this.#turn.length === 0) process.nextTick(flush, this);
    this.#turn.push(bytes);
  }

  flush(): void {
    const turn = this.#turn;
    if (turn.length === 0) return;
    this.#turn = [];
    if (this.#answer.isCut || this.#answer.write(turn, this.#drained) || this.isStalled) return;
    this.isStalled = true;
    this.#source.pause();
  }

  /** Sends the last bytes and the figures; `usage` is undefined when they were not recorded. */
  end(last: Buffer | string, usage: string | undefined): void {
    this.flush();
    this.#answer.end(Buffer.from(last), usage);
  }

  readonly #drained = (): void => {
    if (!this.isStalled) return;
    this.isStalled = false;
    this.#source.resume();
  };
}

function flush(answer: StreamAnswer): void {
  answer.flush();
}
