import type { ServerResponse } from "node:http";

/** A whole answer with its length; nothing when the client is gone or the headers already left. */
export function writeJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  writeText(response, status, JSON.stringify(body), headers);
}

/** The same for JSON that is text already. */
export function writeText(
  response: ServerResponse,
  status: number,
  json: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  if (response.headersSent || response.destroyed) return;
  const length = Buffer.byteLength(json);
  response.writeHead(status, { "content-type": "application/json", "content-length": length, ...headers });
  // A string leaves in one write with the headers, a buffer as a second piece.
  response.end(json, length === json.length ? "latin1" : "utf8");
}
