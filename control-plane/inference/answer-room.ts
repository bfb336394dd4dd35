// What this process keeps of answers that are not handed on as they come: those for webhooks, batches, and bodies that are
// written anew. Beyond the room an answer's instance is paused, and goes on when others have ended; likewise beyond an
// account's share of it. INVARIANT: of those that still come the first is never paused, so that one of them always comes to
// its end, unless whole answers alone fill the room: those go when their readers take them, or are cut.
import { AnswersFull } from "./errors.ts";

/** Less than an agent waits for somebody who does not read. */
const mostPauseMs = 60_000;
/** Of the room, for one account. */
const mostShare = 0.5;

/** Of one answer. */
export interface AnswerFlow {
  pause(): void;
  resume(): void;
  /** It was paused for as long as anybody waits: nothing of it is kept any more. */
  giveUp(error: AnswersFull): void;
}

/** What is held of a number of bytes. */
class Held {
  bytes = 0;
  wholeBytes = 0;
  /** Of those that still come, in the order in which they began to. */
  readonly coming = new Set<AnswerShare>();

  /** Whether so much is held that `share` must wait. */
  stops(share: AnswerShare, mostBytes: number, first: AnswerShare | undefined): boolean {
    return this.bytes > mostBytes && (first !== share || this.wholeBytes > mostBytes);
  }
}

export class AnswerRoom {
  readonly mostBytes: number;
  readonly mostPauseMs: number;
  readonly #all = new Held();
  readonly #ofAccounts = new Map<string, Held>();
  readonly #shares = new Set<AnswerShare>();

  constructor(mostBytes: number, pauseMs = mostPauseMs) {
    this.mostBytes = mostBytes;
    this.mostPauseMs = pauseMs;
  }

  get heldBytes(): number {
    return this.#all.bytes;
  }

  /** Work whose answer is to be kept may begin. */
  get hasRoom(): boolean {
    return this.#all.bytes <= this.mostBytes / 2;
  }

  /** How much more the share holds. True: it must pause. */
  add(share: AnswerShare, bytes: number): boolean {
    this.#shares.add(share);
    for (const held of this.#heldWith(share)) {
      held.bytes += bytes;
      if (share.isWhole) held.wholeBytes += bytes;
      else held.coming.add(share);
    }
    return this.#isOver(share);
  }

  /** Nothing more comes of the share: another one is the first. `bytes`: what it holds. */
  whole(share: AnswerShare, bytes: number): void {
    if (!this.#shares.has(share)) return;
    for (const held of this.#heldWith(share)) if (held.coming.delete(share)) held.wholeBytes += bytes;
    this.#goOn();
  }

  remove(share: AnswerShare, bytes: number): void {
    if (!this.#shares.delete(share)) return;
    for (const held of this.#heldWith(share)) {
      held.bytes -= bytes;
      if (!held.coming.delete(share)) held.wholeBytes -= bytes;
    }
    if (this.#ofAccounts.get(share.account)?.bytes === 0) this.#ofAccounts.delete(share.account);
    this.#goOn();
  }

  #goOn(): void {
    for (const other of this.#all.coming) if (other.isPaused && !this.#isOver(other)) other.goOn();
  }

  #isOver(share: AnswerShare): boolean {
    if (this.#all.bytes <= this.mostBytes * mostShare) return false;
    if (this.#isOverItsAccounts(share)) return true;
    if (this.#all.bytes <= this.mostBytes) return false;
    return this.#all.stops(share, this.mostBytes, this.#first());
  }

  #isOverItsAccounts(share: AnswerShare): boolean {
    const own = this.#ofAccounts.get(share.account);
    const [first] = own?.coming ?? [];
    return own?.stops(share, this.mostBytes * mostShare, first) ?? false;
  }

  /** That may go on as far as its account is concerned. */
  #first(): AnswerShare | undefined {
    for (const share of this.#all.coming) if (!this.#isOverItsAccounts(share)) return share;
    return undefined;
  }

  #heldWith({ account }: AnswerShare): readonly [Held, Held] {
    let own = this.#ofAccounts.get(account);
    if (!own) {
      own = new Held();
      this.#ofAccounts.set(account, own);
    }
    return [this.#all, own];
  }
}

/** What one answer holds of a room, until it is let go. */
export class AnswerShare {
  readonly account: string;
  isWhole = false;
  readonly #room: AnswerRoom;
  readonly #flow: AnswerFlow;
  #bytes = 0;
  #paused: NodeJS.Timeout | undefined;

  constructor(room: AnswerRoom, account: string, flow: AnswerFlow) {
    this.#room = room;
    this.account = account;
    this.#flow = flow;
  }

  get isPaused(): boolean {
    return this.#paused !== undefined;
  }

  add(bytes: number): void {
    this.#bytes += bytes;
    if (!this.#room.add(this, bytes) || this.#paused || this.isWhole) return;
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
    if (this.isWhole) return;
    this.isWhole = true;
    this.#unpause();
    this.#room.whole(this, this.#bytes);
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
