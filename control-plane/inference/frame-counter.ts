// Counts the data frames of a stream that is otherwise forwarded unread: what a broken answer may cost is what was
// delivered of it. Comments are no data.

const mark = Buffer.from("data:");
const newline = 10;

export class FrameCounter {
  frames = 0;
  /** The last byte ended a line, or nothing came yet. */
  #atLineStart = true;
  /** Bytes of `data:` that stood at the end of the last chunk. */
  #matched = 0;

  push(chunk: Buffer): void {
    let at = 0;
    if (this.#matched > 0) {
      while (this.#matched < mark.length && at < chunk.length && chunk[at] === mark[this.#matched]) {
        at += 1;
        this.#matched += 1;
      }
      if (this.#matched === mark.length) this.frames += 1;
      else if (at === chunk.length) return;
      this.#matched = 0;
    }
    for (let found = chunk.indexOf(mark, at); found >= 0; found = chunk.indexOf(mark, found + mark.length)) {
      if (found === 0 ? this.#atLineStart : chunk[found - 1] === newline) this.frames += 1;
    }
    this.#remember(chunk);
  }

  get endsLine(): boolean {
    return this.#atLineStart;
  }

  #remember(chunk: Buffer): void {
    const last = chunk[chunk.length - 1];
    if (last === undefined) return;
    const beganLine = this.#atLineStart;
    this.#atLineStart = last === newline;
    // Only a chunk that ends inside the mark is looked at again: `d`, `da`, `dat`, `data` after a line's end.
    if (last !== 100 && last !== 97 && last !== 116) return;
    for (let length = Math.min(4, chunk.length); length > 0; length--) {
      const start = chunk.length - length;
      const beginsLine = start === 0 ? beganLine : chunk[start - 1] === newline;
      if (beginsLine && chunk.compare(mark, 0, length, start) === 0) {
        this.#matched = length;
        return;
      }
    }
  }
}
