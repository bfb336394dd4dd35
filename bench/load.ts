// Closed-loop load: each of `concurrency` callers sends its next request when the last one ends.

import { connect, type Socket } from "node:net";
import { Pool } from "undici";

export interface Load {
  readonly url: string;
  readonly path: string;
  readonly headers: Record<string, string>;
  /** Additional header of request `i`. */
  readonly header?: (i: number) => readonly [string, string];
  readonly body: string;
  readonly requests: number;
  readonly concurrency: number;
  /** Address that the connections come from; default: chosen by the system. */
  readonly localAddress?: string | undefined;
}

export interface LoadResult {
  readonly seconds: number;
  readonly latenciesMs: readonly number[];
  readonly bytes: number;
  /** Data frames seen, for streams. */
  readonly frames: number;
  readonly failures: number;
  /** Status and response of one that failed. */
  readonly failure?: string;
}

export async function runLoad(load: Load): Promise<LoadResult> {
  const { localAddress } = load;
  const pool = new Pool(load.url, {
    connections: load.concurrency,
    ...(localAddress === undefined ? {} : { connect: { localAddress } }),
  });
  const given = Object.entries(load.headers).flat();
  let bytes = 0;
  let frames = 0;
  let failure = "";
  const result = await runCalls(load.requests, load.concurrency, (i, done) => {
    let status = 0;
    let refusal = "";
    const headers = load.header ? [...given, ...load.header(i)] : given;
    pool.dispatch(
      { method: "POST", path: load.path, headers, body: load.body },
      {
        onRequestStart() {},
        onResponseStart(_controller, code) {
          status = code;
        },
        onResponseData(_controller, chunk) {
          bytes += chunk.length;
          if (status !== 200) refusal += chunk.toString();
          for (let at = chunk.indexOf("data: "); at >= 0; at = chunk.indexOf("data: ", at + 6)) frames++;
        },
        onResponseEnd: () => {
          if (status !== 200) failure = `${status} ${refusal}`;
          done(status === 200);
        },
        onResponseError: (_controller, error) => {
          failure = error.message;
          done(false);
        },
      },
    );
  });
  await pool.close();
  return { ...result, bytes, frames, failure };
}

/** Throws if a request fails. */
export async function runWholeLoad(load: Load): Promise<LoadResult> {
  const result = await runLoad(load);
  if (result.failures > 0)
    throw new Error(
      `${result.failures} of ${load.requests} requests failed at ${load.url}${load.path}, one with ${result.failure}`,
    );
  return result;
}

/** `call` calls `done` at its end. */
export async function runCalls(
  requests: number,
  concurrency: number,
  call: (i: number, done: (isOk: boolean) => void) => void,
): Promise<LoadResult> {
  const latenciesMs: number[] = [];
  let next = 0;
  let failures = 0;
  const began = performance.now();
  await Promise.all(
    Array.from({ length: concurrency }, async () => {
      while (next < requests) {
        const i = next++;
        const at = performance.now();
        const isOk = await new Promise<boolean>((resolve) => call(i, resolve));
        if (isOk) latenciesMs.push(performance.now() - at);
        else failures++;
      }
    }),
  );
  return { seconds: (performance.now() - began) / 1000, latenciesMs, bytes: 0, frames: 0, failures };
}

export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? Number.NaN;
}

export const median = (values: readonly number[]) => quantile(values, 0.5);

interface LeanLoad {
  readonly port: number;
  readonly path: string;
  readonly concurrency: number;
  /** Body of request number `i` of all. */
  readonly body: (i: number) => string;
  readonly seconds: number;
}

/** Uses bare sockets: the client shares cores with the server. Returns responses per second. Throws if one is not a 200 with a length. */
export async function runLeanLoad(load: LeanLoad): Promise<number> {
  const began = performance.now();
  const endMs = began + load.seconds * 1000;
  let answered = 0;
  await Promise.all(
    Array.from({ length: load.concurrency }, async (_, caller) => {
      const socket = connect({ port: load.port, host: "127.0.0.1", noDelay: true });
      const ask = exchanges(socket);
      for (let i = caller; performance.now() < endMs; i += load.concurrency) {
        await ask(requestText(load.path, load.body(i)));
        answered += 1;
      }
      socket.destroy();
    }),
  );
  return (answered * 1000) / (performance.now() - began);
}

function requestText(path: string, body: string): string {
  const length = Buffer.byteLength(body);
  return `POST ${path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n${body}`;
}

/** Sends a request on the socket and waits for the complete response. */
function exchanges(socket: Socket): (request: string) => Promise<void> {
  let done: () => void = () => {};
  let failed: (error: Error) => void = () => {};
  /** Remaining bytes of the body. Undefined before the end of the headers. */
  let left: number | undefined;
  let head = "";
  const onData = (chunk: Buffer) => {
    if (left === undefined) {
      const seen = head.length;
      head += chunk.toString("latin1");
      const end = head.indexOf("\r\n\r\n");
      if (end < 0) return;
      const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1];
      if (!head.startsWith("HTTP/1.1 200 ") || length === undefined)
        return failed(new Error(`the model server answered ${head.slice(0, 300)}`));
      left = Number(length) - (seen + chunk.length - end - 4);
    } else left -= chunk.length;
    if (left > 0) return;
    left = undefined;
    head = "";
    done();
  };
  socket.on("data", onData);
  socket.on("error", (error) => failed(error));
  socket.on("close", () => failed(new Error("the model server closed the connection")));
  return (request) =>
    new Promise((resolve, reject) => {
      done = resolve;
      failed = reject;
      socket.write(request);
    });
}
