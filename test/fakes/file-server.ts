// Serves files over HTTP with HEAD and Range, and misbehaves on request: the base of the fake hub and package index.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface Faults {
  /** Cut the connection after so many body bytes, this many times. */
  cut?: { afterBytes: number; times: number };
  /** Send so many body bytes, then nothing more. */
  stallAfterBytes?: number;
  /** Answer 200 with the whole file whatever range was asked. */
  ignoreRange?: boolean;
  /** Flip one byte of every body, this many times. */
  corrupt?: number;
  /** Refuse everything. */
  refuse?: { status: number; headers?: Record<string, string> };
}

export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly range: string | undefined;
  readonly authorization: string | undefined;
}

export interface FileServer {
  readonly url: string;
  readonly faults: Faults;
  readonly requests: SeenRequest[];
  close(): Promise<void>;
}

type Answer = (request: IncomingMessage, response: ServerResponse, path: string) => void;

export async function startFileServer(answer: (faults: Faults) => Answer): Promise<FileServer> {
  const faults: Faults = {};
  const requests: SeenRequest[] = [];
  const reply = answer(faults);
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url ?? "/", "http://fake").pathname);
    const { range, authorization } = request.headers;
    requests.push({ method: request.method ?? "", path, range, authorization });
    if (!faults.refuse) return reply(request, response, path);
    response.writeHead(faults.refuse.status, faults.refuse.headers).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    faults,
    requests,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** One file, with whatever faults are set at this moment. */
export function sendFile(
  request: IncomingMessage,
  response: ServerResponse,
  file: Buffer,
  faults: Faults,
  headers: Record<string, string> = {},
): void {
  const from = faults.ignoreRange ? 0 : Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? "")?.[1] ?? 0);
  if (from >= file.length) {
    response.writeHead(416, { "content-range": `bytes */${file.length}` }).end();
    return;
  }
  const body = Buffer.from(file.subarray(from));
  if (faults.corrupt !== undefined && faults.corrupt > 0 && request.method === "GET") {
    faults.corrupt--;
    body[body.length - 1] = (body.at(-1) ?? 0) ^ 0xff;
  }
  const range = from > 0 ? { "content-range": `bytes ${from}-${file.length - 1}/${file.length}` } : {};
  response.writeHead(from > 0 ? 206 : 200, { "content-length": String(body.length), ...range, ...headers });
  if (request.method === "HEAD") {
    response.end();
  } else if (faults.stallAfterBytes !== undefined) {
    response.write(body.subarray(0, faults.stallAfterBytes));
  } else if (faults.cut && faults.cut.times > 0) {
    faults.cut.times--;
    response.write(body.subarray(0, faults.cut.afterBytes), () => response.destroy());
  } else response.end(body);
}
