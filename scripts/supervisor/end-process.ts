import { setTimeout as sleep } from "node:timers/promises";
import { isAlive, type ProcessIdentity, sendSignal } from "../../agent/process/process-identity.ts";

export interface StopStep {
  readonly signal: NodeJS.Signals;
  readonly waitMs: number;
}

/** Sends each signal in turn and waits for the end after it. False when the process outlived them all. */
export async function endProcess(known: ProcessIdentity, steps: readonly StopStep[]): Promise<boolean> {
  for (const { signal, waitMs } of steps) {
    if (!sendSignal(known, signal)) return !isAlive(known);
    const deadline = performance.now() + waitMs;
    while (performance.now() < deadline) {
      if (!isAlive(known)) return true;
      await sleep(50);
    }
  }
  return !isAlive(known);
}
