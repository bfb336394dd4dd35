// Reads the shape of a model from the first bytes of its GGUF file.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
import { loraWidthOf } from "./adapter-memory.ts";
import type { ModelShape } from "./memory-estimate.ts";

/** Sizes of the scalar types by number; strings (8) and arrays (9) carry their lengths. */
const scalarBytes: readonly number[] = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];
const magic = "GGUF";
const maxKeys = 4_096;

/** Undefined when required fields are beyond the end of the bytes, or there is no GGUF header. */
export function readGgufShape(head: Buffer, weightsBytes: number): ModelShape | undefined {
  const facts = readFacts(head);
  const architecture = facts.get("general.architecture");
  const number = (key: string) => {
    const value = facts.get(`${String(architecture)}.${key}`);
    return typeof value === "number" && value > 0 ? value : undefined;
  };
  const layers = number("block_count");
  const heads = number("attention.head_count");
  const width = number("embedding_length");
  const contextLength = number("context_length");
  if (!layers || !heads || !width || !contextLength) return undefined;
  const headLength = Math.floor(width / heads);
  const kvHeads = number("attention.head_count_kv") ?? heads;
  const keyLength = number("attention.key_length") ?? headLength;
  const valueLength = number("attention.value_length") ?? headLength;
  return {
    ...{ weightsBytes, layers, contextLength, kvHeads, keyLength, valueLength },
    loraWidth: loraWidthOf({
      ...{ width, queryWidth: heads * keyLength, keyWidth: kvHeads * keyLength, valueWidth: kvHeads * valueLength },
      feedForward: number("feed_forward_length"),
    }),
  };
}

/** Reads numbers and short strings up to the end of `head`. */
function readFacts(head: Buffer): ReadonlyMap<string, number | string> {
  const facts = new Map<string, number | string>();
  if (head.length < 24 || head.toString("latin1", 0, 4) !== magic) return facts;
  const keys = Math.min(Number(head.readBigUInt64LE(16)), maxKeys);
  let at = 24;
  const text = (): string => {
    const length = Number(head.readBigUInt64LE(at));
    const from = at + 8;
    if (from + length > head.length) throw new RangeError("the header is longer");
    at = from + length;
    return head.toString("utf8", from, at);
  };
  // Counts come from an untrusted file: loops need their own bounds.
  const pass = (type: number, count: number): void => {
    const bytes = (scalarBytes[type] || Number.NaN) * count;
    if (!(at + bytes <= head.length)) throw new RangeError("the header is longer, or has an unknown type");
    at += bytes;
  };
  const value = (type: number): number | string | undefined => {
    if (type === 8) return text();
    if (type === 9) {
      const of = head.readUInt32LE(at);
      const count = Number(head.readBigUInt64LE(at + 4));
      at += 12;
      // Some models have one value per layer: use the largest.
      if (of === 4 || of === 5) {
        let largest = 0;
        for (let n = 0; n < count; n++, at += 4) largest = Math.max(largest, head.readUInt32LE(at));
        return largest;
      }
      if (of === 8) for (let n = 0; n < count; n++) text();
      else pass(of, count);
      return undefined;
    }
    const from = at;
    pass(type, 1);
    if (type === 4) return head.readUInt32LE(from);
    if (type === 10) return Number(head.readBigUInt64LE(from));
    return undefined;
  };
  try {
    for (let n = 0; n < keys; n++) {
      const key = text();
      const type = head.readUInt32LE(at);
      at += 4;
      const found = value(type);
      if (found !== undefined) facts.set(key, found);
    }
  } catch (error) {
    // The fields read so far may be enough.
    if (!(error instanceof RangeError)) throw error;
  }
  return facts;
}
