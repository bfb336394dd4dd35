// A prompt as a chain of blocks, each with a hash of everything up to its end. Two prompts of one scope with equal hashes of a block
// begin with the same bytes, so an instance that evaluated one has that part of the other in its cache.
import { createHmac } from "node:crypto";
import { keepNewest } from "../../proto/keep-newest.ts";
import { hashText, mixed } from "./hash.ts";

/** Smallest block. Later blocks have 1/16 of the bytes before them, so that a long prompt has few. */
const minBlockBytes = 512;
/** Covers prompts of 400 MiB. */
const maxBlocks = 192;
/** Part of the body that is searched for the prompt's key. */
const headBytes = 65_536;
/** Part of the body, at its end, that is searched for the last response. */
const tailBytes = 65_536;
const assistant = Buffer.from('"assistant"');
const role = Buffer.from('"role"');
const openingBrace = 0x7b;
/** Size of the beginning of a message, up to its role. */
const messageBytes = 32;
/** Parts hashed of a block, at equal distances: together all of the smallest block. */
const runs = 8;
const runBytes = minBlockBytes / runs;

/** Bytes of the block that begins at `offset` of the prompt. */
export const blockBytesAt = (offset: number): number => Math.max(minBlockBytes, (offset >> 4) & ~3);

/** Filled for one prompt at a time and reused: hashing a prompt allocates nothing that grows with it. */
export class PromptBlocks {
  /** Two hashes of the prompt up to the end of each block. */
  readonly places = new Uint32Array(maxBlocks);
  readonly tags = new Uint32Array(maxBlocks);
  /** End of each block, as a share of the prompt. */
  readonly shares = new Float64Array(maxBlocks);
  count = 0;
  /** Bytes of the prompt, and where its last response begins and ends; 0: none is known. */
  bytes = 0;
  responseStart = 0;
  responseEnd = 0;

  clear(): void {
    this.count = 0;
    this.bytes = 0;
    this.responseStart = 0;
    this.responseEnd = 0;
  }

  fill(body: Buffer, promptKey: "messages" | "prompt", scope: PromptScope): void {
    this.clear();
    const at = Math.max(0, body.subarray(0, headBytes).indexOf(`"${promptKey}"`));
    const length = body.length - at;
    this.bytes = length;
    if (length < minBlockBytes) return;
    const view = new DataView(body.buffer, body.byteOffset + at, length);
    let { place, tag } = scope;
    let offset = 0;
    for (let i = 0; i < maxBlocks; i++) {
      const size = blockBytesAt(offset);
      if (offset + size > length) break;
      const between = (size / runs) & ~3;
      for (let run = 0; run < runs; run++) {
        const start = offset + run * between;
        for (let word = start; word < start + runBytes; word += 8) {
          place = Math.imul(place ^ view.getUint32(word, true), 0xcc9e2d51);
          place = (place << 15) | (place >>> 17);
          tag = Math.imul(tag ^ view.getUint32(word + 4, true), 0x1b873593);
          tag = (tag << 13) | (tag >>> 19);
        }
      }
      // Each lane read half of the words: both hashes must depend on all of them.
      const both = mixed(place ^ Math.imul(tag, 0x9e3779b1));
      place = mixed(place + both);
      tag = mixed(tag ^ both);
      offset += size;
      this.add(place, tag, offset / length);
    }
    if (promptKey === "messages") this.#findResponse(body, at);
  }

  /**
   * Finds the last message of the assistant near the end of the body, unless none follows it. Where a message names its role first, as
   * clients do, it ends before the next one; otherwise its role is taken as its end. The prompt begins at `start`.
   */
  #findResponse(body: Buffer, start: number): void {
    const from = Math.max(start, body.length - tailBytes);
    const tail = body.subarray(from);
    const last = tail.lastIndexOf(assistant);
    const next = last < 0 ? -1 : tail.indexOf(role, last + assistant.length);
    if (next < 0) return;
    this.responseStart = from + last - start;
    this.responseEnd = tail[next - 1] === openingBrace ? from + next - start : this.responseStart;
  }

  /** Share of the prompt in the cache of an instance that evaluated `share` of it: more if the last response follows, which it wrote. */
  continued(share: number): number {
    const evaluated = share * this.bytes;
    // The request that was answered ended within the block behind its last whole one.
    const isNext = share > 0 && evaluated + blockBytesAt(evaluated) + messageBytes >= this.responseStart;
    return isNext ? Math.max(share, this.responseEnd / this.bytes) : share;
  }

  /** A key given by the client stands for the whole prompt. */
  fillKey(key: string, scope: PromptScope): void {
    this.clear();
    this.bytes = 1;
    this.add(mixed(hashText(key, scope.place)), mixed(hashText(key, scope.tag)), 1);
  }

  /** Returns the block that ends at this share of the prompt; -1 if none does. */
  indexOf(share: number): number {
    let at = this.count - 1;
    while (at >= 0 && (this.shares[at] as number) > share) at -= 1;
    return at >= 0 && this.shares[at] === share ? at : -1;
  }

  /** The caller adds at most `places.length` blocks. */
  add(place: number, tag: number, share: number): void {
    this.places[this.count] = place;
    this.tags[this.count] = tag;
    this.shares[this.count] = share;
    this.count += 1;
  }
}

/** Hashes of prompts begin with these: prompts are compared only within a scope, an account and the adapter if a request uses one. */
export interface PromptScope {
  readonly account: string;
  /** 32 bits each. */
  readonly place: number;
  readonly tag: number;
}

const maxScopes = 10_000;

/**
 * The hashes of blocks are easy to invert. Who knew another account's scope could make prompts with the hashes of its blocks, see by
 * `cached_tokens` where they go, and draw its requests to an instance.
 */
export class PromptScopes {
  readonly #secret: Buffer;
  readonly #known = new Map<string, PromptScope>();

  /** `secret`: the same in all control planes, which send each other hashes. */
  constructor(secret: Buffer) {
    this.#secret = secret;
  }

  of(account: string, adapter: string | undefined): PromptScope {
    const name = adapter === undefined ? account : `${account}\0${adapter}`;
    return this.#known.get(name) ?? keepNewest(this.#known, name, this.#make(account, name), maxScopes);
  }

  #make(account: string, name: string): PromptScope {
    const bytes = createHmac("sha256", this.#secret).update(name).digest();
    return { account, place: bytes.readUInt32LE(0), tag: bytes.readUInt32LE(4) };
  }
}
