// Protocol between a gateway and a shell in a container: an upgrade on the agent's data path, with a ticket for this purpose
// alone, turns the connection into frames in both directions. A frame: kind (u8), length of the payload (u16), payload; numbers
// are big-endian.

/** Protocol name of the upgrade. */
export const terminalProtocol = "stoker-terminal/1";

/** In place of a model's name: the bearer may open one shell in the container of the ticket's instance. */
export const terminalPurpose = "terminal";

export interface TerminalSize {
  readonly columns: number;
  readonly rows: number;
}

export const usualSize: TerminalSize = { columns: 80, rows: 24 };
const maxCells = 1_000;
const isCells = (value: unknown): value is number =>
  typeof value === "number" && Number.isInteger(value) && value >= 1 && value <= maxCells;

/** Returns the size if both values are whole numbers from 1 to 1,000. */
export function sizeOf(columns: unknown, rows: unknown): TerminalSize | undefined {
  return isCells(columns) && isCells(rows) ? { columns, rows } : undefined;
}

export const terminalPath = (instance: string, { columns, rows }: TerminalSize): string =>
  `/i/${instance}/terminal?columns=${columns}&rows=${rows}`;

/** Size in the query of such a path. */
export function sizeIn(query: string): TerminalSize {
  const given = new URLSearchParams(query);
  return sizeOf(Number(given.get("columns")), Number(given.get("rows"))) ?? usualSize;
}

/** Output that may be on its way to a client that has not confirmed it. */
export const terminalWindow = 512 * 1024;
/** Maximum bytes of one message or frame. */
export const maxTerminalBytes = 64 * 1024 - 1;

const kinds = { data: 0, size: 1, exit: 2 } as const;
const headerBytes = 3;

export type TerminalFrame =
  | { readonly kind: "data"; readonly bytes: Buffer }
  | { readonly kind: "size"; readonly size: TerminalSize }
  /** The shell ended; null: its exit code is unknown. */
  | { readonly kind: "exit"; readonly code: number | null };

const frame = (kind: number, payload: Buffer): Buffer => {
  const head = Buffer.alloc(headerBytes);
  head.writeUInt8(kind);
  head.writeUInt16BE(payload.length, 1);
  return Buffer.concat([head, payload]);
};

/** Returns frames with these bytes, in pieces of the maximum length; without bytes none. */
export function dataFrames(bytes: Buffer): Buffer {
  if (bytes.length > 0 && bytes.length <= maxTerminalBytes) return frame(kinds.data, bytes);
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += maxTerminalBytes)
    pieces.push(frame(kinds.data, bytes.subarray(at, at + maxTerminalBytes)));
  return Buffer.concat(pieces);
}

export function sizeFrame({ columns, rows }: TerminalSize): Buffer {
  const payload = Buffer.alloc(4);
  payload.writeUInt16BE(columns);
  payload.writeUInt16BE(rows, 2);
  return frame(kinds.size, payload);
}

export function exitFrame(code: number | null): Buffer {
  if (code === null) return frame(kinds.exit, Buffer.alloc(0));
  const payload = Buffer.alloc(4);
  payload.writeInt32BE(code);
  return frame(kinds.exit, payload);
}

/** Length of the frame whose header is at `at`. */
const lengthAt = (bytes: Buffer, at: number): number => headerBytes + bytes.readUInt16BE(at + 1);

/** Reads frames from the bytes of a connection. Holds at most one unfinished frame, and copies each byte of it once. */
export class TerminalFrames {
  #unfinished: Buffer | undefined;
  #filled = 0;

  /** Returns the frames that `chunk` completes. Throws on anything else: the peer is not trusted. */
  take(chunk: Buffer): TerminalFrame[] {
    const found: TerminalFrame[] = [];
    let at = 0;
    while (at < chunk.length) {
      const left = chunk.length - at;
      const isWhole = this.#filled === 0 && left >= headerBytes && left >= lengthAt(chunk, at);
      if (isWhole) {
        const end = at + lengthAt(chunk, at);
        found.push(read(chunk.readUInt8(at), chunk.subarray(at + headerBytes, end)));
        at = end;
      } else {
        at += this.#collect(chunk, at, found);
      }
    }
    return found;
  }

  /** Copies bytes of the unfinished frame: of its header, or of its payload. Returns how many. */
  #collect(chunk: Buffer, at: number, found: TerminalFrame[]): number {
    this.#unfinished ??= Buffer.allocUnsafe(headerBytes + maxTerminalBytes);
    const frame = this.#unfinished;
    const wanted = this.#filled < headerBytes ? headerBytes : lengthAt(frame, 0);
    const copied = chunk.copy(frame, this.#filled, at, at + wanted - this.#filled);
    this.#filled += copied;
    if (this.#filled >= headerBytes && this.#filled === lengthAt(frame, 0)) {
      // The next unfinished frame overwrites these bytes, and whoever gets them may keep them.
      found.push(read(frame.readUInt8(), Buffer.from(frame.subarray(headerBytes, this.#filled))));
      this.#filled = 0;
    }
    return copied;
  }
}

function read(kind: number, payload: Buffer): TerminalFrame {
  // One without bytes would cost its reader work, and no sender's window.
  if (kind === kinds.data && payload.length > 0) return { kind: "data", bytes: payload };
  if (kind === kinds.exit && (payload.length === 0 || payload.length === 4))
    return { kind: "exit", code: payload.length === 0 ? null : payload.readInt32BE() };
  const size =
    kind === kinds.size && payload.length === 4 ? sizeOf(payload.readUInt16BE(), payload.readUInt16BE(2)) : undefined;
  if (size === undefined) throw new Error("the peer sent an invalid frame of a terminal");
  return { kind: "size", size };
}
