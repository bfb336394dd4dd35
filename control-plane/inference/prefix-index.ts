// Index of the instances that evaluated a block of a prompt, as far as this replica sent them there. Entries are hints: they may be missing,
// and an engine may have dropped what they name.
import { oncePer } from "../../proto/once-per.ts";
import { mixed } from "./hash.ts";
import type { PromptBlocks } from "./prompt-blocks.ts";

/** Instances of one row: its bits. A deployment with more has several rows for a block. */
export const groupSize = 64;
/** Added to the number of a group: its bit in the row of a block that says which groups have a row for it. */
const summarySlots = 2 ** 31;
/** Rows that a search in a large deployment reads for single groups. */
const maxGroupRows = 32;
/** Rows of a bucket; a new block replaces the one that was used longest ago. */
const ways = 4;
/** Words of a row: tag and branches, time of last use, bits of the instances. */
const rowWords = 4;
/** Bits of a tag; the others count how often a prompt went on differently after the block. */
const tagMask = 0xffffff00;
const maxBranches = 0xff;
/**
 * A block after which as many prompts differ belongs to several conversations. The next turn of a conversation counts once, and
 * once more if the fields behind its messages filled a block.
 */
const sharedBranches = 3;
/** Known blocks before the new ones that count as used with them. */
const renewed = 8;
const bucketWords = ways * rowWords;

/** Instances of one list with equal `slot >> 6`. */
export interface InstanceGroup {
  /** Bits of the instances, and their positions in the list by bit. */
  low: number;
  high: number;
  readonly positions: Int32Array;
}

export class PrefixIndex {
  readonly #rows: Uint32Array;
  readonly #bucketMask: number;
  #time: number;
  /** Number, by bit, of an instance in the list that is being matched. */
  readonly #positions = new Int32Array(groupSize);
  /** Longest part of a prompt that the last search found, as a share of it. */
  longest = 0;
  #isLongestShared = true;
  /** Some deployment is so large that it is searched by summaries of its groups. */
  #hasSummaries = false;

  /** `rowCount`: a power of two; 16 bytes each. Memory is used as rows are written. `time`: number of the last note. */
  constructor(rowCount = 2 ** 18, time = 0) {
    this.#time = time;
    this.#rows = new Uint32Array(rowCount * rowWords);
    this.#bucketMask = rowCount / ways - 1;
  }

  get bytes(): number {
    return this.#rows.byteLength;
  }

  /**
   * Writes to `shares` the share of the prompt that each instance evaluated before. `slots`: numbers of the instances; neighbours
   * with equal `slot >> 6` are read together. True: all that is known of the prompt is common to several conversations, so this
   * one is new.
   */
  match(blocks: PromptBlocks, slots: Int32Array, count: number, shares: Float64Array): boolean {
    shares.fill(0, 0, count);
    this.longest = 0;
    this.#isLongestShared = true;
    if (blocks.count === 0) return true;
    for (let from = 0; from < count; ) {
      const group = (slots[from] as number) >>> 6;
      let low = 0;
      let high = 0;
      let to = from;
      for (; to < count && (slots[to] as number) >>> 6 === group; to++) {
        const bit = (slots[to] as number) & 63;
        if (bit < 32) low |= 1 << bit;
        else high |= 1 << (bit & 31);
        this.#positions[bit] = to;
      }
      this.#matchGroup(blocks, group, low, high, shares);
      from = to;
    }
    return this.#isLongestShared;
  }

  /**
   * Searches a large deployment. Writes the positions of at most `found.length` instances that evaluated the longest parts of the prompt
   * to `found`, and their shares of it to `shares`, which must contain zeros. `start`, a random number of 12 bits: those that come first of
   * equal instances. `isNew`: as `match` returns.
   */
  find(
    blocks: PromptBlocks,
    groups: ReadonlyMap<number, InstanceGroup>,
    start: number,
    found: Int32Array,
    shares: Float64Array,
  ): { readonly count: number; readonly isNew: boolean } {
    this.#hasSummaries = true;
    this.longest = 0;
    let isNew = true;
    let count = 0;
    let groupRows = 0;
    let step = 1;
    const supers = supersOf(groups);
    for (let i = blocks.count - 1; i >= 0 && count < found.length && groupRows < maxGroupRows; i -= step) {
      const [place, tag, share] = [blocks.places[i] as number, blocks.tags[i] as number, blocks.shares[i] as number];
      for (const over of supers) {
        const summary = this.#find(this.#bucketOf(place, over), tagOf(tag, over));
        if (summary < 0) continue;
        const before = count;
        // Groups begin at or after the start; so do the instances of each.
        const [first, from] = [start >>> 11, (start >>> 6) & 31];
        for (let part = 0; part < 3; part++) {
          const isHigh = (part === 1) !== (first === 1);
          const behind = part === 0 ? -1 << from : part === 1 ? -1 : ~(-1 << from);
          let bits = (this.#rows[summary + (isHigh ? 3 : 2)] as number) & behind;
          for (; bits !== 0 && count < found.length && groupRows < maxGroupRows; bits &= bits - 1) {
            const bit = (isHigh ? 63 : 31) - Math.clz32(bits & -bits);
            const number = ((over << 6) | bit) & (summarySlots / groupSize - 1);
            const group = groups.get(number);
            if (!group) continue;
            groupRows += 1;
            const row = this.#find(this.#bucketOf(place, number), tagOf(tag, number));
            if (row >= 0) count = this.#takeOfGroup(row, group, start, share, found, count, shares);
          }
        }
        if (count === before) continue;
        if (step === 1) {
          this.longest = share;
          isNew = ((this.#rows[summary] as number) & maxBranches) >= sharedBranches;
          step = 2;
        }
      }
      if (step > 1) step = 2 + (i >> 3);
    }
    return { count, isNew };
  }

  /** Adds the instances of a row that were not found yet, first those at or after the start; returns the new count. */
  #takeOfGroup(
    row: number,
    group: InstanceGroup,
    start: number,
    share: number,
    found: Int32Array,
    count: number,
    shares: Float64Array,
  ): number {
    const lower = (1 << (start & 31)) - 1;
    let total = count;
    for (let half = 0; half < 2; half++) {
      const isHigh = ((start >>> 5) & 1) !== half;
      const bits = (this.#rows[row + (isHigh ? 3 : 2)] as number) & (isHigh ? group.high : group.low);
      total = take(bits & ~lower, isHigh, group, share, found, total, shares);
      total = take(bits & lower, isHigh, group, share, found, total, shares);
    }
    return total;
  }

  /** Records that the instance evaluates the prompt, of which it evaluated the blocks before number `from` already. */
  note(blocks: PromptBlocks, slot: number, from = 0): void {
    this.#note(blocks, slot, from);
    if (this.#hasSummaries) this.#note(blocks, summarySlots + (slot >>> 6), from);
  }

  #note(blocks: PromptBlocks, slot: number, from: number): void {
    const rows = this.#rows;
    const group = slot >>> 6;
    let before = -1;
    for (let i = Math.max(0, from - renewed); i < blocks.count; i++) {
      const bucket = this.#bucketOf(blocks.places[i] as number, group);
      const tag = tagOf(blocks.tags[i] as number, group);
      const known = this.#find(bucket, tag);
      if (known < 0 && before >= 0 && ((rows[before] as number) & maxBranches) < maxBranches)
        rows[before] = (rows[before] as number) + 1;
      this.#use(known < 0 ? this.#replaceOldest(bucket, tag) : known, slot);
      before = known;
    }
  }

  /** Records one block by its hashes. */
  noteBlock(place: number, tag: number, slot: number): void {
    this.#noteBlock(place, tag, slot);
    if (this.#hasSummaries) this.#noteBlock(place, tag, summarySlots + (slot >>> 6));
  }

  #noteBlock(place: number, tag: number, slot: number): void {
    const group = slot >>> 6;
    const bucket = this.#bucketOf(place, group);
    const known = this.#find(bucket, tagOf(tag, group));
    this.#use(known < 0 ? this.#replaceOldest(bucket, tagOf(tag, group)) : known, slot);
  }

  #replaceOldest(bucket: number, tag: number): number {
    const rows = this.#rows;
    const row = this.#oldest(bucket);
    rows[row] = tag;
    rows[row + 2] = 0;
    rows[row + 3] = 0;
    return row;
  }

  #use(row: number, slot: number): void {
    const rows = this.#rows;
    this.#time = (this.#time + 1) >>> 0;
    rows[row + 1] = this.#time;
    const bit = slot & 63;
    const word = row + (bit < 32 ? 2 : 3);
    rows[word] = (rows[word] as number) | (1 << (bit & 31));
  }

  // From the end of the prompt: the first row with an instance's bit is the longest part that it evaluated. Behind the first one
  // found, blocks are skipped: the instances that evaluated less than the best need no exact figure.
  #matchGroup(blocks: PromptBlocks, group: number, low: number, high: number, shares: Float64Array): void {
    let lowLeft = low;
    let highLeft = high;
    let step = 1;
    for (let i = blocks.count - 1; i >= 0; i -= step) {
      const row = this.#find(this.#bucketOf(blocks.places[i] as number, group), tagOf(blocks.tags[i] as number, group));
      if (row < 0) continue;
      const share = blocks.shares[i] as number;
      let bits = (this.#rows[row + 2] as number) & lowLeft;
      const highBits = (this.#rows[row + 3] as number) & highLeft;
      if ((bits | highBits) === 0) continue;
      if (share >= this.longest) {
        const isShared = ((this.#rows[row] as number) & maxBranches) >= sharedBranches;
        this.#isLongestShared = isShared || (share === this.longest && this.#isLongestShared);
        this.longest = share;
      }
      step = 1 + (i >> 3);
      lowLeft &= ~bits;
      for (; bits !== 0; bits &= bits - 1) shares[this.#positions[31 - Math.clz32(bits & -bits)] as number] = share;
      bits = highBits;
      highLeft &= ~bits;
      for (; bits !== 0; bits &= bits - 1) shares[this.#positions[63 - Math.clz32(bits & -bits)] as number] = share;
      if (lowLeft === 0 && highLeft === 0) return;
    }
  }

  #bucketOf(place: number, group: number): number {
    return ((group === 0 ? place : mixed(place ^ Math.imul(group, 0x9e3779b1))) & this.#bucketMask) * bucketWords;
  }

  #find(bucket: number, tag: number): number {
    const rows = this.#rows;
    for (let row = bucket; row < bucket + bucketWords; row += rowWords)
      if (((rows[row] as number) & tagMask) >>> 0 === tag) return row;
    return -1;
  }

  #oldest(bucket: number): number {
    let oldest = bucket;
    for (let row = bucket + rowWords; row < bucket + bucketWords; row += rowWords)
      if (this.#ageOf(row) > this.#ageOf(oldest)) oldest = row;
    return oldest;
  }

  /** Notes since the row was used; the counter wraps after 2^32. */
  #ageOf(row: number): number {
    return (this.#time - (this.#rows[row + 1] as number)) >>> 0;
  }
}

// Rows of equal blocks of two groups must differ in one bucket.
const tagOf = (tag: number, group: number): number => ((tag ^ Math.imul(group, 0x85ebca6b)) & tagMask) >>> 0;

/** Adds the instances of these bits that were not found yet; returns the new count. */
function take(
  bits: number,
  isHigh: boolean,
  group: InstanceGroup,
  share: number,
  found: Int32Array,
  count: number,
  shares: Float64Array,
): number {
  let to = count;
  for (let left = bits; left !== 0 && to < found.length; left &= left - 1) {
    const position = group.positions[(isHigh ? 63 : 31) - Math.clz32(left & -left)] as number;
    if ((shares[position] as number) > 0) continue;
    shares[position] = share;
    found[to++] = position;
  }
  return to;
}

/** Numbers of the groups of the summaries of these groups. */
const supersOf = oncePer((groups: ReadonlyMap<number, InstanceGroup>): readonly number[] => [
  ...new Set([...groups.keys()].map((group) => (summarySlots + group) >>> 6)),
]);

/** Divides a list of instances by their slots. */
export function groupsOf(slots: readonly number[]): ReadonlyMap<number, InstanceGroup> {
  const groups = new Map<number, InstanceGroup>();
  for (const [position, slot] of slots.entries()) {
    let group = groups.get(slot >>> 6);
    if (!group) {
      group = { low: 0, high: 0, positions: new Int32Array(groupSize) };
      groups.set(slot >>> 6, group);
    }
    const bit = slot & 63;
    if (bit < 32) group.low |= 1 << bit;
    else group.high |= 1 << (bit & 31);
    group.positions[bit] = position;
  }
  return groups;
}
