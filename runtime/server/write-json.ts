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
  const bytes = Buffer.from(json);
  response.writeHead(status, { "content-type": "application/json", "content-length": bytes.length, ...headers });
  response.end(bytes);
}
