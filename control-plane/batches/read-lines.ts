import { isUtf8 } from "node:buffer";
import type { Readable } from "node:stream";

export interface Line {
  /** From 1, counting blank lines. */
  readonly line: number;
  /** Undefined: longer than the limit. */
  readonly text: string | undefined;
  /** The first characters of a line that is longer than the limit. */
  readonly start?: string;
  /** False: some characters could not be decoded. */
  readonly isUtf8: boolean;
}

const newline = 10;
/** Length of the start that is kept of a line above the limit. */
const startBytes = 4 * 1024;

/** Yields the non-blank lines of a file. At most one line, and at most `maxBytes`, is in memory. */
export async function* readLines(body: Readable, maxBytes: number): AsyncGenerator<Line> {
  let parts: Buffer[] = [];
  let bytes = 0;
  let line = 1;
  const take = (): Line | undefined => {
    const isLong = bytes > maxBytes;
    const kept = Buffer.concat(parts);
    parts = [];
    bytes = 0;
    if (isLong) return { line, text: undefined, start: kept.toString(), isUtf8: true };
    // Skip a byte order mark.
    const text = line === 1 ? kept.toString().replace(/^\uFEFF/, "") : kept.toString();
    return text.trim() === "" ? undefined : { line, text, isUtf8: isUtf8(kept) };
  };
  for await (const chunk of body as AsyncIterable<Buffer>) {
    let from = 0;
    for (;;) {
      const to = chunk.indexOf(newline, from);
      const part = chunk.subarray(from, to < 0 ? chunk.length : to);
      bytes += part.length;
      parts.push(part);
      if (bytes > maxBytes) parts = [Buffer.concat(parts, Math.min(bytes, startBytes))];
      if (to < 0) break;
      const whole = take();
      if (whole) yield whole;
      line += 1;
      from = to + 1;
    }
  }
  const last = bytes > 0 ? take() : undefined;
  if (last) yield last;
}
