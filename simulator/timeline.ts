// Virtual time: a heap of actors, each with the time of its next action.

export interface Actor {
  /** Acts at `nowMs` and sets its next time. */
  act(nowMs: number): void;
}

export class Timeline {
  nowMs = 0;
  #isStopped = false;
  readonly #actors: Actor[] = [];
  /** By position in the heap. */
  readonly #ids: number[] = [];
  /** By actor. */
  readonly #times: number[] = [];
  readonly #positions: number[] = [];
  /** Actor that acts now. It keeps its place until it has a new time or acted without one: nearly all set one. */
  #acting = -1;

  /** Returns the actor's number. It does nothing until `set`. */
  add(actor: Actor): number {
    this.#actors.push(actor);
    this.#times.push(Number.POSITIVE_INFINITY);
    this.#positions.push(-1);
    return this.#actors.length - 1;
  }

  /** Replaces the actor's next time; Infinity: none. */
  set(id: number, atMs: number): void {
    this.#times[id] = atMs;
    if (id === this.#acting) this.#acting = -1;
    const at = this.#positions[id] as number;
    if (atMs === Number.POSITIVE_INFINITY) {
      if (at >= 0) this.#remove(at);
    } else if (at < 0) {
      this.#ids.push(id);
      this.#up(this.#ids.length - 1, id);
    } else {
      this.#up(at, id);
      this.#down(this.#positions[id] as number, id);
    }
  }

  /** Ends `run` at the current time. */
  stop(): void {
    this.#isStopped = true;
  }

  /** Runs until `endMs`, until nothing is left to do, or until `stop`. */
  run(endMs: number): void {
    for (;;) {
      const id = this.#ids[0];
      if (id === undefined) break;
      const atMs = this.#times[id] as number;
      if (atMs > endMs) break;
      this.nowMs = atMs;
      this.#acting = id;
      (this.#actors[id] as Actor).act(atMs);
      if (this.#acting === id) this.set(id, Number.POSITIVE_INFINITY);
      if (this.#isStopped) return;
    }
    this.nowMs = endMs;
  }

  #remove(at: number): void {
    this.#positions[this.#ids[at] as number] = -1;
    const last = this.#ids.pop() as number;
    if (at === this.#ids.length) return;
    this.#up(at, last);
    this.#down(this.#positions[last] as number, last);
  }

  // Equal times: the lower number acts first, so that a run has one order.
  #isBefore(one: number, other: number): boolean {
    const [left, right] = [this.#times[one] as number, this.#times[other] as number];
    return left < right || (left === right && one < other);
  }

  #up(from: number, id: number): void {
    let at = from;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = this.#ids[parent] as number;
      if (!this.#isBefore(id, above)) break;
      this.#place(at, above);
      at = parent;
    }
    this.#place(at, id);
  }

  #down(from: number, id: number): void {
    let at = from;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= this.#ids.length) break;
      const right = this.#ids[child + 1];
      if (right !== undefined && this.#isBefore(right, this.#ids[child] as number)) child += 1;
      const below = this.#ids[child] as number;
      if (!this.#isBefore(below, id)) break;
      this.#place(at, below);
      at = child;
    }
    this.#place(at, id);
  }

  #place(at: number, id: number): void {
    this.#ids[at] = id;
    this.#positions[id] = at;
  }
}
