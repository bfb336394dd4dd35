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

/** Returns frames with these bytes, in pieces of the maximum length. */
export function dataFrames(bytes: Buffer): Buffer {
  if (bytes.length <= maxTerminalBytes) return frame(kinds.data, bytes);
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

/** Reads frames from the bytes of a connection. Holds at most one unfinished frame. */
export class TerminalFrames {
  #rest: Buffer = Buffer.alloc(0);

  /** Returns the frames that `chunk` completes. Throws on anything else: the peer is not trusted. */
  take(chunk: Buffer): TerminalFrame[] {
    let bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const found: TerminalFrame[] = [];
    while (bytes.length >= headerBytes) {
      const end = headerBytes + bytes.readUInt16BE(1);
      if (bytes.length < end) break;
      found.push(read(bytes.readUInt8(), bytes.subarray(headerBytes, end)));
      bytes = bytes.subarray(end);
    }
    this.#rest = bytes;
    return found;
  }
}

function read(kind: number, payload: Buffer): TerminalFrame {
  if (kind === kinds.data) return { kind: "data", bytes: payload };
  if (kind === kinds.exit && (payload.length === 0 || payload.length === 4))
    return { kind: "exit", code: payload.length === 0 ? null : payload.readInt32BE() };
  const size =
    kind === kinds.size && payload.length === 4 ? sizeOf(payload.readUInt16BE(), payload.readUInt16BE(2)) : undefined;
  if (size === undefined) throw new Error("the peer sent an invalid frame of a terminal");
  return { kind: "size", size };
}
