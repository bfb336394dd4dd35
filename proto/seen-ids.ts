// Remembers ids, to find duplicates, in 16 to 32 bytes each (256 MiB at most): two 32-bit hashes with random seeds. Two different ids
// among a million are taken for one with a probability of about 1 in 40 million.
import { randomInt } from "node:crypto";

/** Beyond it no id is remembered. */
export const maxIds = 2 ** 24;

export class SeenIds {
  readonly #seed = randomInt(2 ** 32);
  #slots = new Uint32Array(2 * 1024);
  #count = 0;

  /** False: it was there before. */
  add(id: string): boolean {
    const [a, b] = this.#hashOf(id);
    if (!this.#insert(this.#slots, a, b)) return false;
    this.#count += 1;
    if (this.#count * 4 > this.#slots.length && this.#count < maxIds) this.#grow();
    return true;
  }

  /** No further id is remembered. */
  get isFull(): boolean {
    return this.#count >= maxIds;
  }

  has(id: string): boolean {
    const [a, b] = this.#hashOf(id);
    const slots = this.#slots;
    const mask = slots.length / 2 - 1;
    for (let at = (a ^ (b >>> 7)) & mask; slots[2 * at + 1] !== 0; at = (at + 1) & mask)
      if (slots[2 * at] === a && slots[2 * at + 1] === b) return true;
    return false;
  }

  #hashOf(id: string): readonly [number, number] {
    let [a, b] = [this.#seed, ~this.#seed >>> 0];
    for (let i = 0; i < id.length; i++) {
      const c = id.charCodeAt(i);
      a = Math.imul(a ^ c, 0x85ebca6b);
      a ^= a >>> 13;
      b = Math.imul(b ^ c, 0xc2b2ae35);
      b ^= b >>> 16;
    }
    // 0 and 0 is an empty slot.
    return [a >>> 0, b >>> 0 || 1];
  }

  #insert(slots: Uint32Array, a: number, b: number): boolean {
    const mask = slots.length / 2 - 1;
    for (let at = (a ^ (b >>> 7)) & mask; ; at = (at + 1) & mask) {
      const [knownA, knownB] = [slots[2 * at], slots[2 * at + 1]];
      if (knownB === 0) {
        // A full table would have no end.
        if (this.#count >= maxIds) return true;
        slots[2 * at] = a;
        slots[2 * at + 1] = b;
        return true;
      }
      if (knownA === a && knownB === b) return false;
    }
  }

  #grow(): void {
    const old = this.#slots;
    this.#slots = new Uint32Array(old.length * 2);
    for (let at = 0; at < old.length; at += 2)
      if (old[at + 1] !== 0) this.#insert(this.#slots, old[at] as number, old[at + 1] as number);
  }
}
