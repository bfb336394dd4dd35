// Caches that callers keep under a key and whose sequence another request needs: their state waits in a file and is read
// back when the key comes again. Oldest first they go when the bytes are used up or their time is over; all of them with
// the process. After a restore the rest of the prompt is evaluated as after any other prefix.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { commonPrefix } from "./choose-sequence.ts";

interface Slot {
  readonly path: string;
  readonly tokens: readonly number[];
  readonly bytes: number;
  readonly untilMs: number;
}

/** Evaluating so few tokens costs no more than a file. */
const worthKeeping = 64;

export class SlotStore {
  readonly #maxBytes: number;
  readonly #now: () => number;
  /** Oldest first. */
  readonly #slots = new Map<string, Slot>();
  #folder: Promise<string> | undefined;
  #files = 0;
  #bytesPerToken = 0;

  /** 0 bytes: nothing is kept. `now`: milliseconds of a clock that only goes forward. */
  constructor(maxBytes: number, now: () => number = () => performance.now()) {
    this.#maxBytes = maxBytes;
    this.#now = now;
  }

  get bytes(): number {
    return [...this.#slots.values()].reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** `write` puts the state of these tokens into a file. */
  async save(
    key: string,
    tokens: readonly number[],
    untilMs: number,
    write: (path: string) => Promise<number>,
  ): Promise<void> {
    await this.#sweep();
    const needed = this.#bytesPerToken * tokens.length;
    if (this.#maxBytes === 0 || tokens.length < worthKeeping || needed > this.#maxBytes) return;
    await this.#drop(key);
    await this.#freeSpace(needed);
    this.#folder ??= mkdtemp(join(tmpdir(), "stoker-slots-"));
    const path = join(await this.#folder, String(++this.#files));
    try {
      const bytes = await write(path);
      this.#bytesPerToken = bytes / tokens.length;
      this.#slots.set(key, { path, tokens, bytes, untilMs });
      await this.#freeSpace(0);
    } catch {
      // A full disk costs the cache, never the request that needs its sequence.
      await rm(path, { force: true });
    }
  }

  /** The file of a kept prefix that spares more than `than` tokens. */
  find(key: string, prompt: readonly number[], than: number): string | undefined {
    const slot = this.#slots.get(key);
    const isWorth = slot && slot.untilMs > this.#now() && commonPrefix(slot.tokens, prompt) >= than + worthKeeping;
    return isWorth ? slot.path : undefined;
  }

  async close(): Promise<void> {
    if (this.#folder) await rm(await this.#folder, { recursive: true, force: true });
  }

  async #freeSpace(bytes: number): Promise<void> {
    while (this.#slots.size > 0 && this.bytes + bytes > this.#maxBytes)
      await this.#drop([...this.#slots.keys()][0] as string);
  }

  async #sweep(): Promise<void> {
    for (const [key, { untilMs }] of this.#slots) if (untilMs <= this.#now()) await this.#drop(key);
  }

  async #drop(key: string): Promise<void> {
    const slot = this.#slots.get(key);
    this.#slots.delete(key);
    if (slot) await rm(slot.path, { force: true });
  }
}
