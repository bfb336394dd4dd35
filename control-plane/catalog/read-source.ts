// Reads a file that the operator names by path or URL.
import { readFile } from "node:fs/promises";

const fetchMs = 15_000;
const maxBytes = 4 * 1024 * 1024;

const isWebSource = (source: string): boolean => /^https?:\/\//.test(source);

/** Throws if it cannot be read, or if a URL has more than 4 MiB. */
export async function readSource(source: string): Promise<string> {
  if (!isWebSource(source)) return readFile(source, "utf8");
  const response = await fetch(source, { signal: AbortSignal.timeout(fetchMs) });
  if (!response.ok || !response.body) throw new Error(`the server of the catalogue returned ${response.status}`);
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of response.body) {
    size += part.length;
    if (size > maxBytes) throw new Error(`the catalogue has more than ${maxBytes} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}
