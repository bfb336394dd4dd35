// Virtual time: a heap of actors, each with the time of its next action. Four children share a parent, and times stay beside the heap's
// entries: a comparison then reads neighbouring memory.

export interface Actor {
  /** Acts at `nowMs` and sets its next time. */
  act(nowMs: number): void;
}

export class Timeline {
  nowMs = 0;
  #isStopped = false;
  readonly #actors: Actor[] = [];
  /** By position in the heap: an actor and its time. */
  readonly #ids: number[] = [];
  readonly #times: number[] = [];
  /** By actor; -1: it has no time. */
  readonly #positions: number[] = [];
  /** Actor that acts now. It keeps its place until it has a new time or acted without one: nearly all set one. */
  #acting = -1;

  /** Returns the actor's number. It does nothing until `set`. */
  add(actor: Actor): number {
    this.#actors.push(actor);
    this.#positions.push(-1);
    return this.#actors.length - 1;
  }

  /** Replaces the actor's next time; Infinity: none. */
  set(id: number, atMs: number): void {
    if (id === this.#acting) this.#acting = -1;
    const at = this.#positions[id] as number;
    if (atMs === Number.POSITIVE_INFINITY) {
      if (at >= 0) this.#remove(at);
    } else if (at < 0) {
      this.#ids.push(id);
      this.#times.push(atMs);
      this.#up(this.#ids.length - 1, id, atMs);
    } else if (atMs > (this.#times[at] as number)) this.#down(at, id, atMs);
    else this.#up(at, id, atMs);
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
      const atMs = this.#times[0] as number;
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
    const lastMs = this.#times.pop() as number;
    if (at === this.#ids.length) return;
    this.#up(at, last, lastMs);
    this.#down(this.#positions[last] as number, last, lastMs);
  }

  // Equal times: the lower number acts first, so that a run has one order.
  #up(from: number, id: number, atMs: number): void {
    const [ids, times] = [this.#ids, this.#times];
    let at = from;
    while (at > 0) {
      const parent = (at - 1) >> 2;
      const aboveMs = times[parent] as number;
      if (aboveMs < atMs || (aboveMs === atMs && (ids[parent] as number) < id)) break;
      this.#place(at, ids[parent] as number, aboveMs);
      at = parent;
    }
    this.#place(at, id, atMs);
  }

  #down(from: number, id: number, atMs: number): void {
    const [ids, times] = [this.#ids, this.#times];
    const size = ids.length;
    let at = from;
    for (;;) {
      let child = 4 * at + 1;
      if (child >= size) break;
      let childMs = times[child] as number;
      const end = Math.min(child + 4, size);
      for (let other = child + 1; other < end; other++) {
        const otherMs = times[other] as number;
        if (otherMs > childMs || (otherMs === childMs && (ids[other] as number) > (ids[child] as number))) continue;
        child = other;
        childMs = otherMs;
      }
      if (childMs > atMs || (childMs === atMs && (ids[child] as number) > id)) break;
      this.#place(at, ids[child] as number, childMs);
      at = child;
    }
    this.#place(at, id, atMs);
  }

  #place(at: number, id: number, atMs: number): void {
    this.#ids[at] = id;
    this.#times[at] = atMs;
    this.#positions[id] = at;
  }
}
