// Finds the boundaries of WebSocket frames (RFC 6455, 5.2), because a frame may be inserted only between two others. Payloads are
// neither read nor kept.

const closing = 0x8;
const maxHeadBytes = 14;

export class WebSocketFrames {
  readonly #head = Buffer.alloc(maxHeadBytes);
  #have = 0;
  #left = 0;
  #hasClosed = false;

  /** True when the bytes so far end with a complete frame, or there are none. */
  get isBetween(): boolean {
    return this.#have === 0 && this.#left === 0;
  }

  /** True after the start of a closing frame: nothing may follow it. */
  get hasClosed(): boolean {
    return this.#hasClosed;
  }

  /** Takes the next bytes of the connection. */
  take(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; ) at = this.#step(chunk, at);
  }

  /** Takes bytes up to the end of the current frame and returns their number. */
  takeRest(chunk: Buffer): number {
    let at = 0;
    while (at < chunk.length && !this.isBetween) at = this.#step(chunk, at);
    return at;
  }

  /** Advances to the end of a head, of a payload or of the chunk. */
  #step(chunk: Buffer, at: number): number {
    if (this.#left > 0) {
      const passed = Math.min(this.#left, chunk.length - at);
      this.#left -= passed;
      return at + passed;
    }
    let next = at;
    while (next < chunk.length) {
      this.#head[this.#have++] = chunk[next++] as number;
      if (this.#have < this.#headSize()) continue;
      if (((this.#head[0] as number) & 0x0f) === closing) this.#hasClosed = true;
      this.#left = this.#payloadSize();
      this.#have = 0;
      break;
    }
    return next;
  }

  #headSize(): number {
    if (this.#have < 2) return 2;
    const second = this.#head[1] as number;
    const lengthBytes = { 126: 2, 127: 8 }[second & 0x7f] ?? 0;
    const isMasked = (second & 0x80) !== 0;
    return 2 + lengthBytes + (isMasked ? 4 : 0);
  }

  #payloadSize(): number {
    const short = (this.#head[1] as number) & 0x7f;
    if (short === 126) return this.#head.readUInt16BE(2);
    return short === 127 ? Number(this.#head.readBigUInt64BE(2)) : short;
  }
}
