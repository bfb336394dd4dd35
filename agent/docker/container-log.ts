// A container's log as Docker engines send it.

/** Frames of 8 bytes head (stream, length) and one line each; a cut last one is left out. */
export function* readFrames(framed: Buffer): Generator<string> {
  for (let at = 0; at + 8 <= framed.length; ) {
    const end = at + 8 + framed.readUInt32BE(at + 4);
    if (end > framed.length) return;
    yield framed.toString("utf8", at + 8, end).replace(/\r?\n$/, "");
    at = end;
  }
}
