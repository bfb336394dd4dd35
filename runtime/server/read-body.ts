// A JSON body, bounded.
import type { IncomingMessage } from "node:http";
import { parseExactJson, parseScanned } from "../../proto/exact-json.ts";
import { isJsonObject } from "../../proto/json-object.ts";
import { scanJson } from "../../proto/json-scan.ts";
import type { Body } from "./fields.ts";
import { RequestError } from "./request-error.ts";

/** Above what the gateway lets through, so that the limit a customer meets is the gateway's. */
const maxBytes = 64 * 1024 * 1024;

/** Throws RequestError. */
export async function readBody(request: IncomingMessage): Promise<Body> {
  const bytes = await readBytes(request);
  let body: unknown;
  try {
    body = parseJson(bytes);
  } catch (error) {
    throw new RequestError(400, `the body is not readable JSON: ${(error as Error).message}`, { cause: error });
  }
  if (!isJsonObject(body)) throw new RequestError(400, "the body must be a JSON object");
  return body;
}

/** By callbacks: an iterator over a body of one chunk costs several times what the chunk does. */
function readBytes(request: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const onData = (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= maxBytes) return void chunks.push(chunk);
      reject(
        new RequestError(413, `the body is above ${maxBytes / 1024 / 1024} MiB`, { headers: { connection: "close" } }),
      );
      // The rest is read and forgotten, so that the client gets to its answer.
      request.off("data", onData).resume();
    };
    request.on("data", onData);
    request.on("end", () => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)));
    request.on("error", reject);
    request.on("close", () => {
      if (!request.complete) reject(new Error("the client disconnected"));
    });
  });
}

/** Longer integers are beyond 2^64, and millions of digits would take seconds to read. */
const maxDigits = 20;

/** Throws SyntaxError, also where the bytes nest too deep or hold more values than can be parsed in time. */
export function parseJson(bytes: Buffer): unknown {
  const scan = scanJson(bytes);
  if (scan === "too_deep") throw new SyntaxError("too many levels of nesting");
  if (scan === "too_complex") throw new SyntaxError("too many values");
  return (scan.longIntegers.length > 0 && parseExactJson(bytes, scan, integerOf)) || parseScanned(bytes, scan);
}

const integerOf = (digits: string): bigint | number =>
  digits.replace("-", "").length <= maxDigits ? BigInt(digits) : Number(digits);
