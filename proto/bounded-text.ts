/** Reads the body of a response. Throws if it is longer; the rest is not read. */
export async function boundedText(body: AsyncIterable<Uint8Array> | null, limitBytes: number): Promise<string> {
  const pieces: Uint8Array[] = [];
  let length = 0;
  for await (const piece of body ?? []) {
    length += piece.byteLength;
    // Leaving the loop ends the connection.
    if (length > limitBytes) throw new Error(`its answer is longer than ${limitBytes / 1024 / 1024} MiB`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString("utf8");
}
