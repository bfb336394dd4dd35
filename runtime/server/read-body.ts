// A JSON body, bounded.
import type { IncomingMessage } from "node:http";
import { type Body, isObject } from "./fields.ts";
import { parseJson } from "./parse-json.ts";
import { RequestError } from "./request-error.ts";

/** Above what the gateway lets through, so that the limit a customer meets is the gateway's. */
const maxBytes = 64 * 1024 * 1024;

/** Throws RequestError. */
export async function readBody(request: IncomingMessage): Promise<Body> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBytes)
      throw new RequestError(413, `the body is above ${maxBytes / 1024 / 1024} MiB`, {
        headers: { connection: "close" },
      });
    chunks.push(chunk);
  }
  let body: unknown;
  try {
    body = parseJson(Buffer.concat(chunks).toString("utf8"));
  } catch (error) {
    throw new RequestError(400, `the body is not readable JSON: ${(error as Error).message}`, { cause: error });
  }
  if (!isObject(body)) throw new RequestError(400, "the body must be a JSON object");
  return body;
}
