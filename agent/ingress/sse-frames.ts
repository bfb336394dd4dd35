// Server-sent events as engines write them: frames end with an empty line, `data: {json}` each. Bytes, never streams.

const newline = 10;
const carriageReturn = 13;
const letterD = 100;
/** One pass over a Latin-1 view of the bytes is five times faster than a search per pattern. */
const special = /"usage"|"finish_reason": ?"|\[DONE\]|"error"/;
const roleKey = Buffer.from('"role"');
const contentKey = Buffer.from('"content"');
const emptyContents = ['"content":""', '"content": ""', '"content":null', '"content": null'].map((t) => Buffer.from(t));
/** Only the first frames of a stream can be the ones that name the role and carry no token (`n` is at most 4). */
const introFrames = 8;

/** Whole frames in which neither usage, a finish reason, an error nor the end can stand: they need no look. */
export function isPlain(bytes: Buffer): boolean {
  const n = bytes.length;
  if (bytes[n - 1] !== newline) return false;
  if (bytes[n - 2] !== newline && !(bytes[n - 2] === carriageReturn && bytes[n - 3] === newline)) return false;
  return !special.test(bytes.toString("latin1"));
}

/** Index after the empty line that ends the frame which begins at `from`; -1 when it has not come yet. */
export function frameEnd(bytes: Buffer, from: number): number {
  for (let i = bytes.indexOf(newline, from); i >= 0; i = bytes.indexOf(newline, i + 1)) {
    if (bytes[i + 1] === newline) return i + 2;
    if (bytes[i + 1] === carriageReturn && bytes[i + 2] === newline) return i + 3;
  }
  return -1;
}

/** Data frames with text in plain bytes; `before` frames of the stream came earlier. */
export function countFrames(bytes: Buffer, before: number): number {
  let n = 0;
  for (let start = 0; start < bytes.length; ) {
    const end = frameEnd(bytes, start);
    if (end < 0) break;
    if (bytes[start] === letterD && (before >= introFrames || !isIntro(bytes.subarray(start, end)))) n += 1;
    start = end;
  }
  return n;
}

function isIntro(frame: Buffer): boolean {
  if (frame.indexOf(roleKey) < 0) return false;
  return frame.indexOf(contentKey) < 0 || emptyContents.some((empty) => frame.indexOf(empty) >= 0);
}

/** What follows `data:`; undefined for comments and for frames that begin otherwise. */
export function payloadOf(frame: Buffer): Buffer | undefined {
  const at = frame.indexOf("data:");
  if (at < 0 || (at > 0 && frame[at - 1] !== newline)) return undefined;
  let from = at + 5;
  if (frame[from] === 32) from += 1;
  let to = frame.length;
  while (to > from && (frame[to - 1] === newline || frame[to - 1] === carriageReturn)) to -= 1;
  return frame.subarray(from, to);
}

const prefix = Buffer.from("data: ");
const suffix = Buffer.from("\n\n");

export function frameOf(json: Buffer): Buffer {
  return Buffer.concat([prefix, json, suffix]);
}

export interface Chunk {
  readonly choices: number;
  readonly isFinish: boolean;
  readonly hasText: boolean;
  readonly isError: boolean;
}

interface Choice {
  readonly finish_reason?: unknown;
  readonly text?: unknown;
  readonly delta?: { content?: unknown; reasoning_content?: unknown; tool_calls?: unknown };
}

/** A chunk that is no JSON object counts as one choice without text. */
export function readChunk(json: Buffer): Chunk {
  let value: { choices?: unknown; error?: unknown } | null;
  try {
    value = JSON.parse(json.toString()) as typeof value;
  } catch {
    value = null;
  }
  const choices = Array.isArray(value?.choices) ? (value.choices as readonly Choice[]) : undefined;
  return {
    choices: choices ? choices.length : 1,
    isFinish: choices?.some((c) => c?.finish_reason != null) ?? false,
    hasText: choices?.some(hasText) ?? false,
    isError: choices === undefined && value?.error != null,
  };
}

function hasText(choice: Choice): boolean {
  const d = choice?.delta;
  return Boolean(choice?.text || d?.content || d?.reasoning_content || d?.tool_calls);
}
