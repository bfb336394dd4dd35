import { setTimeout as sleep } from "node:timers/promises";
import type { Child } from "./child.ts";
import { fullDiskNote } from "./disk.ts";
import { lastSentence, logTail } from "./log-file.ts";
import type { OwnApi } from "./own-api.ts";
import { UpError } from "./up-error.ts";

export interface Wait {
  readonly child: Child;
  readonly title: string;
  readonly dataDir: string;
  readonly limitMs: number;
  readonly signal: AbortSignal;
}

/** Polls until `isReady`. Throws UpError with the end of the log if the child keeps exiting or the limit is reached. */
export async function untilReady(wait: Wait, isReady: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + wait.limitMs;
  while (performance.now() < deadline && wait.child.deaths() < 3) {
    wait.signal.throwIfAborted();
    if (wait.child.isMisconfigured())
      throw new UpError(`${wait.title} cannot start. ${lastSentence(wait.dataDir, wait.child.name)}`);
    if (wait.child.pid() !== undefined && (await isReady().catch(() => false))) return;
    await sleep(150, undefined, { signal: wait.signal });
  }
  const what = wait.child.deaths() > 0 ? "exits right after starting" : `was not ready within ${wait.limitMs / 1000} s`;
  throw new UpError(
    `${wait.title} ${what}.${fullDiskNote(wait.dataDir)} The last lines of ${wait.dataDir}/logs/${wait.child.name}.log:\n${logTail(wait.dataDir, wait.child.name)}`,
  );
}

export async function answersOk(api: OwnApi, url: string, signal: AbortSignal): Promise<boolean> {
  const response = await api.fetch(url, { signal: AbortSignal.any([signal, AbortSignal.timeout(3000)]) });
  await response.arrayBuffer();
  return response.ok;
}
