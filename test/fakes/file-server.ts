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
  /** Refuse everything, or so many requests. */
  refuse?: { status: number; headers?: Record<string, string>; times?: number };
  /** Take every request and say nothing. */
  silent?: boolean;
  /** A few bytes every now and then: of headers already (`in`), or of bodies. */
  trickle?: { in: "headers" | "body"; everyMs: number };
  /** Go on after the end of a file, and say no length. */
  endless?: boolean;
}

/** Faults as a test sets them, with what the server counts. */
interface Running extends Faults {
  sent?: number;
}

export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly range: string | undefined;
  readonly authorization: string | undefined;
  readonly ifRange: string | undefined;
}

export interface FileServer {
  readonly url: string;
  readonly faults: Faults;
  readonly requests: SeenRequest[];
  /** Body bytes of files that were handed to the network. */
  readonly sentBytes: number;
  close(): Promise<void>;
}

type Answer = (request: IncomingMessage, response: ServerResponse, path: string) => void;

export async function startFileServer(answer: (faults: Running) => Answer): Promise<FileServer> {
  const faults: Running = {};
  const requests: SeenRequest[] = [];
  const reply = answer(faults);
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url ?? "/", "http://fake").pathname);
    const { range, authorization } = request.headers;
    const ifRange = request.headers["if-range"]?.toString();
    requests.push({ method: request.method ?? "", path, range, authorization, ifRange });
    if (faults.silent) return;
    if (faults.trickle?.in === "headers") return trickleHeaders(response, faults.trickle.everyMs);
    const { refuse } = faults;
    if (!refuse || refuse.times === 0) return reply(request, response, path);
    if (refuse.times !== undefined) refuse.times--;
    response.writeHead(refuse.status, refuse.headers).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    faults,
    requests,
    get sentBytes() {
      return faults.sent ?? 0;
    },
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
  faults: Running,
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
  const length = faults.endless ? undefined : { "content-length": String(body.length) };
  response.writeHead(from > 0 ? 206 : 200, { ...length, ...range, ...headers });
  const send = (bytes: Buffer, done?: () => void): void => {
    faults.sent = (faults.sent ?? 0) + bytes.length;
    response.write(bytes, done);
  };
  if (request.method === "HEAD") {
    response.end();
  } else if (faults.endless) {
    const more = (): void => void (response.destroyed || send(body, () => setImmediate(more)));
    more();
  } else if (faults.trickle) {
    trickleBody(response, body, faults.trickle.everyMs);
  } else if (faults.stallAfterBytes !== undefined) {
    send(body.subarray(0, faults.stallAfterBytes));
  } else if (faults.cut && faults.cut.times > 0) {
    faults.cut.times--;
    send(body.subarray(0, faults.cut.afterBytes), () => response.destroy());
  } else {
    send(body);
    response.end();
  }
}

function trickleBody(response: ServerResponse, body: Buffer, everyMs: number): void {
  let at = 0;
  const timer = setInterval(() => response.write(body.subarray(at, ++at)), everyMs);
  response.on("close", () => clearInterval(timer));
}

function trickleHeaders(response: ServerResponse, everyMs: number): void {
  response.socket?.write("HTTP/1.1 200 OK\r\n");
  const timer = setInterval(() => response.socket?.write("x-slow: 1\r\n"), everyMs);
  response.on("close", () => clearInterval(timer));
}
