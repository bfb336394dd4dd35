import { setTimeout as sleep } from "node:timers/promises";
import { isAlive, type ProcessIdentity, sendSignal } from "../../agent/process/process-identity.ts";

export interface StopStep {
  readonly signal: NodeJS.Signals;
  readonly waitMs: number;
}

/** Sends each signal and waits for the exit. False if the process survives all of them. */
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
