// An `up` that runs on this machine, by the lock of its data folder (scripts/supervisor/lock.ts).
import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";

export interface RunningUp {
  readonly folder: string;
  /** Of its API, as this machine reaches it. */
  readonly url: string;
  /** Of its other control planes. */
  readonly others: readonly string[];
}

/**
 * Undefined: none runs there, or none to believe. The command may be run in a folder that somebody else wrote, and its key goes
 * where the lock says: so the lock is this user's own or root's, and leads nowhere but to this machine.
 */
export function runningUp(folder: string): RunningUp | undefined {
  try {
    const lock = JSON.parse(readOwn(join(folder, "up.lock"))) as { pid: unknown; url: unknown; others?: unknown };
    const { pid, url, others = [] } = lock;
    const isTaken = typeof pid === "number" && isOurs(url) && Array.isArray(others) && others.every(isOurs);
    return isTaken && isAlive(pid) ? { folder, url, others } : undefined;
  } catch {
    return undefined;
  }
}

const isOurs = (url: unknown): url is string =>
  typeof url === "string" && url.startsWith("http://") && isLoopback(new URL(url).hostname);

/** Of a URL, as it is written there. */
export const isLoopback = (hostname: string): boolean =>
  hostname === "localhost" || hostname === "[::1]" || /^127(\.\d{1,3}){3}$/.test(hostname);

/** Throws where the file is another user's. Asked of the open file: a path can be exchanged in between. */
function readOwn(path: string): string {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const { uid } = fstatSync(file);
    if (uid !== 0 && uid !== process.getuid?.()) throw new Error(`${path} is another user's.`);
    return readFileSync(file, "utf8");
  } finally {
    closeSync(file);
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
