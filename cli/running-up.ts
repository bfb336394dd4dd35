// An `up` that runs on this machine, by the lock of its data folder (scripts/supervisor/lock.ts).
import { readFileSync } from "node:fs";
import { join } from "node:path";

export interface RunningUp {
  readonly folder: string;
  /** Of its API, as this machine reaches it. */
  readonly url: string;
}

/** Undefined: none runs there, or not for this user to see. */
export function runningUp(folder: string): RunningUp | undefined {
  try {
    const { pid, url } = JSON.parse(readFileSync(join(folder, "up.lock"), "utf8")) as { pid: unknown; url: unknown };
    return typeof pid === "number" && typeof url === "string" && isAlive(pid) ? { folder, url } : undefined;
  } catch {
    return undefined;
  }
}

/** The lock of one that was killed stays where it was. */
function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
