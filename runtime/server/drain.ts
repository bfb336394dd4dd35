// Waits until the requests that run are answered.
import { setTimeout as sleep } from "node:timers/promises";
import type { RuntimeState } from "./runtime-state.ts";

const pollMs = 50;

/** True when nothing runs any more, false when `boundMs` passed or the signal aborted first. */
export async function drained(state: RuntimeState, boundMs: number, signal: AbortSignal): Promise<boolean> {
  const deadline = performance.now() + boundMs;
  while (state.open > 0) {
    if (signal.aborted || performance.now() > deadline) return false;
    await sleep(pollMs);
  }
  return true;
}
