// A closed-loop load: `concurrency` callers, each sending its next request when the last one ended.
import { Pool } from "undici";

export interface Load {
  readonly url: string;
  readonly path: string;
  readonly headers: Record<string, string>;
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
  const latenciesMs: number[] = [];
  let left = load.requests;
  let bytes = 0;
  let frames = 0;
  let failures = 0;

  const one = () =>
    new Promise<void>((resolve) => {
      const began = performance.now();
      let status = 0;
      pool.dispatch(
        { method: "POST", path: load.path, headers: load.headers, body: load.body },
        {
          onRequestStart() {},
          onResponseStart(_controller, code) {
            status = code;
          },
          onResponseData(_controller, chunk) {
            bytes += chunk.length;
            for (let at = chunk.indexOf("data: "); at >= 0; at = chunk.indexOf("data: ", at + 6)) frames++;
          },
          onResponseEnd() {
            if (status !== 200) failures++;
            latenciesMs.push(performance.now() - began);
            resolve();
          },
          onResponseError() {
            failures++;
            resolve();
          },
        },
      );
    });

  const began = performance.now();
  await Promise.all(
    Array.from({ length: load.concurrency }, async () => {
      while (left-- > 0) await one();
    }),
  );
  const seconds = (performance.now() - began) / 1000;
  await pool.close();
  return { seconds, latenciesMs, bytes, frames, failures };
}

export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? Number.NaN;
}

export const median = (values: readonly number[]) => quantile(values, 0.5);
