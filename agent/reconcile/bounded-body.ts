// Reads bodies of engines and foreign servers up to a limit.

/** Throws when the body is longer; the rest is not read. */
export async function boundedText(answer: Response, limitBytes: number): Promise<string> {
  if (!answer.body) return "";
  const pieces: Uint8Array[] = [];
  let length = 0;
  for await (const piece of answer.body) {
    length += piece.byteLength;
    // Leaving the loop ends the connection.
    if (length > limitBytes) throw new Error(`its answer is longer than ${limitBytes / 1024 / 1024} MiB`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString("utf8");
}
