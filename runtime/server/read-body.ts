// A JSON body, bounded.
import type { IncomingMessage } from "node:http";
import { type Body, isObject } from "./fields.ts";
import { parseJson } from "./parse-json.ts";
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
  if (!isObject(body)) throw new RequestError(400, "the body must be a JSON object");
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
      if (!request.complete) reject(new Error("the client went away"));
    });
  });
}
