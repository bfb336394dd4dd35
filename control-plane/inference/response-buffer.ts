// Memory budget for buffered responses: those for webhooks, batches and rewritten bodies, which are not streamed. Beyond the
// budget, or an account's share of it, reading from the instance is paused until other responses end. INVARIANT: the first
// incomplete response is never paused, so one always completes, unless complete responses alone fill the budget; those are
// removed when their readers take them, or are cut.
import type { ServiceError } from "../service-error.ts";
import { answersFull } from "./errors.ts";

/** Shorter than an agent's limit for a client that does not read. */
const maxPauseMs = 60_000;
/** Maximum share of the buffer for one account. */
const maxShare = 0.5;

/** Flow control of one response. */
export interface AnswerFlow {
  pause(): void;
  resume(): void;
  /** The response was paused for `maxPauseMs`; its buffered bytes are dropped. */
  giveUp(error: ServiceError): void;
}

/** Bytes held by a group of responses. */
class Held {
  bytes = 0;
  wholeBytes = 0;
  /** Incomplete responses, in the order in which they started. */
  readonly coming = new Set<AnswerShare>();

  /** Returns true when `share` must pause. */
  stops(share: AnswerShare, maxBytes: number, first: AnswerShare | undefined): boolean {
    return this.bytes > maxBytes && (first !== share || this.wholeBytes > maxBytes);
  }
}

export class ResponseBuffer {
  readonly maxBytes: number;
  readonly maxPauseMs: number;
  readonly #all = new Held();
  readonly #ofAccounts = new Map<string, Held>();
  readonly #shares = new Set<AnswerShare>();

  constructor(maxBytes: number, pauseMs = maxPauseMs) {
    this.maxBytes = maxBytes;
    this.maxPauseMs = pauseMs;
  }

  get heldBytes(): number {
    return this.#all.bytes;
  }

  /** True when work with a buffered response may start. */
  get hasCapacity(): boolean {
    return this.#all.bytes <= this.maxBytes / 2;
  }

  /** Counts `bytes` more for the share. Returns true when it must pause. */
  add(share: AnswerShare, bytes: number): boolean {
    this.#shares.add(share);
    for (const held of this.#heldWith(share)) {
      held.bytes += bytes;
      if (share.isWhole) held.wholeBytes += bytes;
      else held.coming.add(share);
    }
    return this.#isOver(share);
  }

  /** Marks the share as complete, so another one is the first. `bytes`: what the share holds. */
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
    if (this.#all.bytes <= this.maxBytes * maxShare) return false;
    if (this.#isOverItsAccounts(share)) return true;
    if (this.#all.bytes <= this.maxBytes) return false;
    return this.#all.stops(share, this.maxBytes, this.#first());
  }

  #isOverItsAccounts(share: AnswerShare): boolean {
    const own = this.#ofAccounts.get(share.account);
    const [first] = own?.coming ?? [];
    return own?.stops(share, this.maxBytes * maxShare, first) ?? false;
  }

  /** The first incomplete response that its account's share permits. */
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

const nothing: AnswerFlow = { pause() {}, resume() {}, giveUp() {} };

/** The part of a buffer that one response holds, until it is released. */
export class AnswerShare {
  readonly account: string;
  isWhole = false;
  readonly #buffer: ResponseBuffer;
  #flow: AnswerFlow;
  #bytes = 0;
  #paused: NodeJS.Timeout | undefined;

  constructor(buffer: ResponseBuffer, account: string, flow: AnswerFlow) {
    this.#buffer = buffer;
    this.account = account;
    this.#flow = flow;
  }

  get isPaused(): boolean {
    return this.#paused !== undefined;
  }

  add(bytes: number): void {
    this.#bytes += bytes;
    if (!this.#buffer.add(this, bytes) || this.#paused || this.isWhole) return;
    this.#paused = setTimeout(() => {
      const flow = this.#flow;
      this.letGo();
      flow.giveUp(answersFull());
    }, this.#buffer.maxPauseMs);
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
    this.#buffer.whole(this, this.#bytes);
  }

  /** Also drops the reference to the response (see proto/slot-list.ts for the reason). May be called again. */
  letGo(): void {
    this.#unpause();
    this.#flow = nothing;
    const bytes = this.#bytes;
    this.#bytes = 0;
    this.#buffer.remove(this, bytes);
  }

  #unpause(): void {
    clearTimeout(this.#paused);
    this.#paused = undefined;
  }
}
