// One `up` per data folder. The lock names its holder by pid and start time, so the lock of a killed one can be taken over.
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { identify, isAlive, type ProcessIdentity } from "../../agent/process/process-identity.ts";
import { UpError } from "./up-error.ts";

interface Holder extends ProcessIdentity {
  readonly url: string;
  /** Of the control planes after the first. */
  readonly others: readonly string[];
}

/**
 * Takes the folder for this process, whose control planes will answer at these addresses; returns the release. Throws UpError
 * naming the holder when it is in use.
 */
export function takeLock(dataDir: string, url: string, others: readonly string[] = []): () => void {
  const path = join(dataDir, "up.lock");
  const own = identify(process.pid);
  if (!own) throw new UpError("This process could not read its own start time; is /proc mounted?");
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, JSON.stringify({ ...own, url, others } satisfies Holder), { mode: 0o600 });
  try {
    for (let attempt = 0; attempt < 5; attempt += 1) {
      try {
        // A link appears with its content or not at all, and fails where the lock exists.
        linkSync(draft, path);
        return () => release(path, own);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      }
      const holder = readHolder(path);
      if (holder && isAlive(holder)) throw inUse(dataDir, holder);
      setAside(path, draft);
    }
  } finally {
    rmSync(draft, { force: true });
  }
  throw new UpError(`Another start is taking the data folder ${dataDir} at this moment; try again in a few seconds.`);
}

function inUse(dataDir: string, holder: Holder): UpError {
  return new UpError(
    `Stoker already runs on the data folder ${dataDir} (pid ${holder.pid}, ${holder.url}); stop it first or choose another folder with --data.`,
  );
}

/** Two starts may find the same dead lock: the one that moved a live one away puts it back. */
function setAside(path: string, draft: string): void {
  const aside = `${draft}.stale`;
  try {
    renameSync(path, aside);
    const moved = readHolder(aside);
    if (moved && isAlive(moved)) linkSync(aside, path);
  } catch (error) {
    if (!["ENOENT", "EEXIST"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
  } finally {
    rmSync(aside, { force: true });
  }
}

function readHolder(path: string): Holder | undefined {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Holder;
  } catch {
    return undefined;
  }
}

function release(path: string, own: ProcessIdentity): void {
  const holder = readHolder(path);
  if (holder?.pid === own.pid && holder.startedAt === own.startedAt) rmSync(path, { force: true });
}
