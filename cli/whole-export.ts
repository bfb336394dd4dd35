// Bytes of an invoice export, up to its last line. A server that fails in between ends the response after a whole line.
import { Readable } from "node:stream";
import { CliError, exitCode } from "./cli-error.ts";

const lineFeed = 0x0a;
/** More than `{"type":"statement",`. */
const headBytes = 32;

/** Throws CliError when the connection breaks, and after the last byte when the last line is not that of an invoice file. */
export async function* wholeExport(body: ReadableStream<Uint8Array>): AsyncGenerator<Buffer> {
  /** First bytes of the last line. */
  let head: Buffer = Buffer.alloc(0);
  let isEnded = false;
  try {
    for await (const chunk of Readable.fromWeb(body as Parameters<typeof Readable.fromWeb>[0])) {
      const bytes = Buffer.from(chunk as Uint8Array);
      if (bytes.length === 0) continue;
      const end = bytes.at(-1) === lineFeed ? bytes.length - 1 : bytes.length;
      const before = end === 0 ? -1 : bytes.lastIndexOf(lineFeed, end - 1);
      const part = bytes.subarray(before + 1, end);
      head = (before < 0 && !isEnded ? Buffer.concat([head, part]) : Buffer.from(part)).subarray(0, headBytes);
      isEnded = end < bytes.length;
      yield bytes;
    }
  } catch (cause) {
    throw new CliError("The connection ended before the export was whole. Run it again.", exitCode.failed, { cause });
  }
  if (!isEnded || !/^\{"type":"(?:statement|open)",/.test(head.toString("latin1")))
    throw new CliError("The export ended early. Run it again.", exitCode.failed);
}
