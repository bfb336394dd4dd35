// A running `up` on this machine, found by the lock of its data folder (scripts/supervisor/lock.ts).
import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";

export interface RunningUp {
  readonly folder: string;
  readonly pid: number;
  /** Start time of the process, as `up` recorded it. */
  readonly startedAt: string;
  /** URL of the API, as seen from this machine. */
  readonly url: string;
  /** URLs of the other control planes. */
  readonly others: readonly string[];
}

/**
 * Undefined if none runs there, or the lock is not trusted. The key is sent to the URL of the lock and the folder may belong to
 * another user, so the lock must belong to this user or root, and its URLs must be on this machine.
 */
export function runningUp(folder: string): RunningUp | undefined {
  try {
    const lock = JSON.parse(readOwn(join(folder, "up.lock"))) as Partial<Record<keyof RunningUp, unknown>>;
    const { pid, url, startedAt = "", others = [] } = lock;
    const isValid = typeof pid === "number" && isLocalUrl(url) && Array.isArray(others) && others.every(isLocalUrl);
    return isValid && isAlive(pid) ? { folder, pid, startedAt: String(startedAt), url, others } : undefined;
  } catch {
    return undefined;
  }
}

const isLocalUrl = (url: unknown): url is string =>
  typeof url === "string" && /^https?:\/\//.test(url) && isLoopback(new URL(url).hostname);

/** `hostname`: as `URL.hostname` returns it. */
export const isLoopback = (hostname: string): boolean =>
  hostname === "localhost" || hostname === "[::1]" || /^127(\.\d{1,3}){3}$/.test(hostname);

/** Throws if the file belongs to another user. Checks the open file, because the path can be replaced in between. */
function readOwn(path: string): string {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const { uid } = fstatSync(file);
    if (uid !== 0 && uid !== process.getuid?.()) throw new Error(`${path} belongs to another user.`);
    return readFileSync(file, "utf8");
  } finally {
    closeSync(file);
  }
}

/** A killed `up` leaves its lock behind. */
function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
