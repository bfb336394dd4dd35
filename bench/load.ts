// Closed-loop load: each of `concurrency` callers sends its next request when the last one ends.
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
}

export interface LoadResult {
  readonly seconds: number;
  readonly latenciesMs: readonly number[];
  readonly bytes: number;
  /** Data frames seen, for streams. */
  readonly frames: number;
  readonly failures: number;
}

export async function runLoad(load: Load): Promise<LoadResult> {
  const pool = new Pool(load.url, { connections: load.concurrency });
  const given = Object.entries(load.headers).flat();
  let bytes = 0;
  let frames = 0;
  const result = await runCalls(load.requests, load.concurrency, (i, done) => {
    let status = 0;
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
          for (let at = chunk.indexOf("data: "); at >= 0; at = chunk.indexOf("data: ", at + 6)) frames++;
        },
        onResponseEnd: () => done(status === 200),
        onResponseError: () => done(false),
      },
    );
  });
  await pool.close();
  return { ...result, bytes, frames };
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
