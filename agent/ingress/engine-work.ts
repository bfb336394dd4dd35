// Checks that an engine has finished its work: a request that was cut here may still be stopping there.
import { setTimeout as wait } from "node:timers/promises";
import type { Pool } from "undici";

const askLimitMs = 1_000;
const pollMs = 100;
const maxBytes = 64 * 1024;

/** True once the engine reports no running or waiting request, or cannot report; false at the deadline or when the signal aborts. */
export async function engineIsIdle(
  pool: Pool,
  path: string,
  headers: Record<string, string>,
  deadlineMs: number,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const until = performance.now() + deadlineMs;
  for (;;) {
    if (!(await isWorking(pool, path, headers))) return true;
    if (performance.now() + pollMs > until || signal?.aborted) return false;
    await wait(pollMs, undefined, signal ? { signal } : {}).catch(() => {});
  }
}

async function isWorking(pool: Pool, path: string, headers: Record<string, string>): Promise<boolean> {
  try {
    const answer = await pool.request({
      method: "GET",
      path,
      headers,
      signal: AbortSignal.timeout(askLimitMs),
    });
    let text = "";
    for await (const part of answer.body) {
      text += part;
      if (text.length > maxBytes) return false;
    }
    const { num_running: running, num_waiting: waiting } = JSON.parse(text) as Record<string, unknown>;
    return (typeof running === "number" && running > 0) || (typeof waiting === "number" && waiting > 0);
  } catch {
    return false;
  }
}
