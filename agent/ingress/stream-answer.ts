// The client's side of a stream: what one event-loop turn brought goes out as one write; a reader that is slower than
// the engine pauses the engine.
import type { Answer } from "./answer.ts";

export interface Source {
  pause(): void;
  resume(): void;
}

export class StreamAnswer {
  /** The client has not taken what was written: the engine is paused. */
  isStalled = false;
  readonly #answer: Answer;
  readonly #source: Source;
  #turn: Buffer[] = [];

  constructor(answer: Answer, source: Source) {
    this.#answer = answer;
    this.#source = source;
  }

  /** Leaves with the rest of this turn. */
  write(bytes: Buffer): void {
    if (this.#turn.length === 0) process.nextTick(flush, this);
    this.#turn.push(bytes);
  }

  /** Writes what this turn brought so far. */
  flush(): void {
    const turn = this.#turn;
    if (turn.length === 0) return;
    this.#turn = [];
    if (this.#answer.isCut || this.#answer.write(turn, this.#drained) || this.isStalled) return;
    this.isStalled = true;
    this.#source.pause();
  }

  /** The last bytes and the figures; `usage` undefined when they are not on record. */
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
