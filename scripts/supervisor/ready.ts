import { setTimeout as sleep } from "node:timers/promises";
import type { Child } from "./child.ts";
import { fullDiskNote } from "./disk.ts";
import { logTail } from "./log-file.ts";
import { UpError } from "./up-error.ts";

export interface Wait {
  readonly child: Child;
  readonly title: string;
  readonly dataDir: string;
  readonly limitMs: number;
  readonly signal: AbortSignal;
}

/** Polls until `isReady`; throws UpError with the end of the child's log when it keeps dying or the time is up. */
export async function untilReady(wait: Wait, isReady: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + wait.limitMs;
  while (performance.now() < deadline && wait.child.deaths() < 3) {
    wait.signal.throwIfAborted();
    if (wait.child.pid() !== undefined && (await isReady().catch(() => false))) return;
    await sleep(150, undefined, { signal: wait.signal });
  }
  const what = wait.child.deaths() > 0 ? "ends as soon as it starts" : `was not ready within ${wait.limitMs / 1000} s`;
  throw new UpError(
    `${wait.title} ${what}.${fullDiskNote(wait.dataDir)} The last lines of ${wait.dataDir}/logs/${wait.child.name}.log:\n${logTail(wait.dataDir, wait.child.name)}`,
  );
}

export async function answersOk(url: string, signal: AbortSignal): Promise<boolean> {
  const response = await fetch(url, { signal: AbortSignal.any([signal, AbortSignal.timeout(3000)]) });
  await response.arrayBuffer();
  return response.ok;
}
