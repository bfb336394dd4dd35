// Whether an engine itself has ended what it was asked: a request that was cut here may still be stopping there.
import { setTimeout as wait } from "node:timers/promises";
import type { Pool } from "undici";

const askLimitMs = 1_000;
const pollMs = 100;
const mostBytes = 64 * 1024;

/** True once it says that nothing runs or waits, or cannot say; false at the deadline or when the signal aborts. */
export async function engineIsIdle(
  pool: Pool,
  path: string,
  deadlineMs: number,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const until = performance.now() + deadlineMs;
  for (;;) {
    if (!(await isWorking(pool, path))) return true;
    if (performance.now() + pollMs > until || signal?.aborted) return false;
    await wait(pollMs, undefined, signal ? { signal } : {}).catch(() => {});
  }
}

async function isWorking(pool: Pool, path: string): Promise<boolean> {
  try {
    const answer = await pool.request({ method: "GET", path, signal: AbortSignal.timeout(askLimitMs) });
    let text = "";
    for await (const part of answer.body) {
      text += part;
      if (text.length > mostBytes) return false;
    }
    const { num_running: running, num_waiting: waiting } = JSON.parse(text) as Record<string, unknown>;
    return (typeof running === "number" && running > 0) || (typeof waiting === "number" && waiting > 0);
  } catch {
    return false;
  }
}
