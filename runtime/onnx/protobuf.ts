// Reads a protobuf message's fields from a file without holding the file: values that are not needed are skipped.
// Source: https://protobuf.dev/programming-guides/encoding/
import type { FileHandle } from "node:fs/promises";

export interface Field {
  readonly number: number;
  /** Position of the bytes of a length-delimited field. Undefined for a number. */
  readonly span: Span | undefined;
  readonly value: bigint;
}

export interface Span {
  readonly start: number;
  readonly end: number;
}

const windowBytes = 64 * 1024;
const longestText = 64 * 1024;

export class ProtobufFile {
  readonly #file: FileHandle;
  #window = Buffer.alloc(0);
  #windowStart = 0;

  constructor(file: FileHandle) {
    this.#file = file;
  }

  /** Throws RangeError where the bytes are no such message. */
  async *fields({ start, end }: Span): AsyncGenerator<Field> {
    let at = start;
    const varint = async () => {
      let value = 0n;
      for (let shift = 0n; shift < 70n; shift += 7n) {
        if (at >= end) throw new RangeError("a number is cut off");
        const byte = this.#known(at) ?? (await this.#byte(at));
        at += 1;
        value |= BigInt(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
      }
      throw new RangeError("a number is too long");
    };
    while (at < end) {
      const key = await varint();
      const number = Number(key >> 3n);
      const wire = Number(key & 7n);
      if (number === 0) throw new RangeError("a field has no number");
      if (wire === 0) {
        yield { number, span: undefined, value: await varint() };
      } else if (wire === 2) {
        const length = Number(await varint());
        const span = { start: at, end: at + length };
        if (span.end > end) throw new RangeError("a field reaches beyond its message");
        at = span.end;
        yield { number, span, value: 0n };
      } else if (wire === 1 || wire === 5) {
        at += wire === 1 ? 8 : 4;
        if (at > end) throw new RangeError("a number is cut off");
        yield { number, span: undefined, value: 0n };
      } else throw new RangeError(`wire type ${wire} is unknown`);
    }
  }

  async text({ start, end }: Span): Promise<string> {
    const length = end - start;
    if (length > longestText) throw new RangeError("a name is too long");
    const { buffer, bytesRead } = await this.#file.read(Buffer.alloc(length), 0, length, start);
    return buffer.toString("utf8", 0, bytesRead);
  }

  /** Key and value of an entry of a map of texts. */
  async entry(span: Span): Promise<readonly [key: string, value: string]> {
    let key = "";
    let value = "";
    for await (const field of this.fields(span)) {
      if (field.number === 1 && field.span) key = await this.text(field.span);
      if (field.number === 2 && field.span) value = await this.text(field.span);
    }
    return [key, value];
  }

  #known(at: number): number | undefined {
    const offset = at - this.#windowStart;
    return offset >= 0 ? this.#window[offset] : undefined;
  }

  async #byte(at: number): Promise<number> {
    const { buffer, bytesRead } = await this.#file.read(Buffer.alloc(windowBytes), 0, windowBytes, at);
    this.#window = buffer.subarray(0, bytesRead);
    this.#windowStart = at;
    const byte = this.#window[0];
    if (byte === undefined) throw new RangeError("the file ends too early");
    return byte;
  }
}
