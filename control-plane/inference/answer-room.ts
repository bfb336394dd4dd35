// What this process keeps of answers that are not handed on as they come: those for webhooks, batches, and bodies that are
// written anew. Beyond the room an answer's instance is paused, and goes on when another one has ended. INVARIANT: the one
// that came first is never paused, so that one of them always comes to its end.
import { AnswersFull } from "./errors.ts";

/** Less than an agent waits for somebody who does not read. */
const mostPauseMs = 60_000;

/** Of one answer. */
export interface AnswerFlow {
  pause(): void;
  resume(): void;
  /** It was paused for as long as anybody waits: nothing of it is kept any more. */
  giveUp(error: AnswersFull): void;
}

export class AnswerRoom {
  readonly mostBytes: number;
  readonly mostPauseMs: number;
  #held = 0;
  /** Those that hold something, in the order in which they began to. */
  readonly #shares = new Set<AnswerShare>();

  constructor(mostBytes: number, pauseMs = mostPauseMs) {
    this.mostBytes = mostBytes;
    this.mostPauseMs = pauseMs;
  }

  get heldBytes(): number {
    return this.#held;
  }

  /** Work whose answer is to be kept may begin. */
  get hasRoom(): boolean {
    return this.#held <= this.mostBytes / 2;
  }

  /** How much more the share holds. True: it must pause. */
  add(share: AnswerShare, bytes: number): boolean {
    this.#shares.add(share);
    this.#held += bytes;
    return this.#isOver(share);
  }

  remove(share: AnswerShare, bytes: number): void {
    if (!this.#shares.delete(share)) return;
    this.#held -= bytes;
    for (const other of this.#shares) if (!this.#isOver(other)) other.goOn();
  }

  #isOver(share: AnswerShare): boolean {
    const [first] = this.#shares;
    return this.#held > this.mostBytes && first !== share;
  }
}

/** What one answer holds of a room, until it is let go. */
export class AnswerShare {
  readonly #room: AnswerRoom;
  readonly #flow: AnswerFlow;
  #bytes = 0;
  #isWhole = false;
  #paused: NodeJS.Timeout | undefined;

  constructor(room: AnswerRoom, flow: AnswerFlow) {
    this.#room = room;
    this.#flow = flow;
  }

  add(bytes: number): void {
    this.#bytes += bytes;
    if (!this.#room.add(this, bytes) || this.#paused || this.#isWhole) return;
    this.#paused = setTimeout(() => {
      this.letGo();
      this.#flow.giveUp(new AnswersFull());
    }, this.#room.mostPauseMs);
    this.#flow.pause();
  }

  goOn(): void {
    if (!this.#paused) return;
    this.#unpause();
    this.#flow.resume();
  }

  /** Nothing more comes: there is nothing to pause. */
  whole(): void {
    this.#isWhole = true;
    this.#unpause();
  }

  /** May be called again. */
  letGo(): void {
    this.#unpause();
    const bytes = this.#bytes;
    this.#bytes = 0;
    this.#room.remove(this, bytes);
  }

  #unpause(): void {
    clearTimeout(this.#paused);
    this.#paused = undefined;
  }
}
