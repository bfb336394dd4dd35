// Lock of a data folder. It contains pid and start time of its holder, so that the lock of a killed `up` can be replaced.
import { linkSync, lstatSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { identify, isAlive, type ProcessIdentity } from "../../agent/process/process-identity.ts";
import { isOwnFolder, noteName, notesFolder, notesIn } from "../../cli/data-folders.ts";
import { endProcess } from "./child.ts";
import { UpError } from "./up-error.ts";

interface Holder extends ProcessIdentity {
  readonly url: string;
  /** URLs of the other control planes. */
  readonly others: readonly string[];
}

/** Locks the folder for this process and returns the release function. Throws UpError with the holder if it is in use. */
export function takeLock(dataDir: string, url: string, others: readonly string[] = []): () => void {
  const path = join(dataDir, "up.lock");
  const own = identify(process.pid);
  if (!own) throw new UpError("This process could not read its own start time; is /proc mounted?");
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, JSON.stringify({ ...own, url, others } satisfies Holder), { mode: 0o600 });
  try {
    for (let attempt = 0; attempt < 5; attempt += 1) {
      try {
        // A link appears atomically with its content, and fails if the lock exists.
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

/** Removes a stale lock. If another start has replaced it in between, puts the new lock back. */
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

/**
 * Notes the data folder for commands of this user, and removes notes of killed `up`s. Returns the function that removes it.
 * Without a folder of this user for notes, commands need STOKER_DATA.
 */
export function noteFolder(dataDir: string, env: NodeJS.ProcessEnv): () => void {
  const folder = notesFolder(env);
  const own = join(folder, noteName(process.pid));
  try {
    // As root in another user's home, this would change files that links of that user lead to.
    if (hasForeignPart(folder)) return () => {};
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    if (!isOwnFolder(folder)) return () => {};
    for (const { path, pid, data } of notesIn(folder)) {
      const holder = readHolder(join(data, "up.lock"));
      if (holder?.pid !== pid || !isAlive(holder)) rmSync(path, { force: true });
    }
    rmSync(own, { force: true });
    // "wx" follows no link.
    writeFileSync(own, `${dataDir}\n`, { flag: "wx", mode: 0o600 });
  } catch {
    return () => {};
  }
  return () => rmSync(own, { force: true });
}

/** Returns true if a folder or link on the path belongs to neither this user nor root. */
function hasForeignPart(path: string): boolean {
  const owner = lstatSync(path, { throwIfNoEntry: false })?.uid;
  if (owner !== undefined && owner !== 0 && owner !== process.getuid?.()) return true;
  return dirname(path) !== path && hasForeignPart(dirname(path));
}

type Record = ProcessIdentity & { readonly title: string };

/** Stops children of an earlier start, except PostgreSQL (see postgres.ts). */
export async function clearLeftOvers(dataDir: string, say: (line: string) => void): Promise<void> {
  const folder = join(dataDir, "run");
  const files = readdirSync(folder).filter((file) => file.endsWith(".json") && file !== "postgres.json");
  await Promise.all(
    files.map(async (file) => {
      const left = readRecord(join(folder, file));
      if (left && isAlive(left)) {
        say(`${left.title} of an earlier start is still running (pid ${left.pid}); stopping it.`);
        const gone = await endProcess(left, [
          { signal: "SIGTERM", waitMs: 20_000 },
          { signal: "SIGKILL", waitMs: 3_000 },
        ]);
        if (!gone)
          throw new UpError(`${left.title} of an earlier start (pid ${left.pid}) does not stop. Stop it first.`);
      }
      rmSync(join(folder, file), { force: true });
    }),
  );
}

function readRecord(path: string): Record | undefined {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Record;
  } catch {
    return undefined;
  }
}
