// One agent per data folder. SQLite's exclusive lock on a separate file belongs to the operating system: it ends with the
// process, also after a crash, and model servers that outlive an agent do not inherit it.
import { closeSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";

class FolderInUse extends Error {
  readonly code = "folder_in_use";
}

interface FolderLock {
  release(): void;
}

/** Time that a stopping agent may still need. */
const patienceMs = 5_000;
const retryMs = 100;
const sqliteBusy = 5;

/**
 * Rejects with FolderInUse, which names the holder, if the holder has not released the folder in time. On a file system
 * without locks the agent continues with a warning.
 */
export async function lockFolder(folder: string, log: Logger, limitMs = patienceMs): Promise<FolderLock> {
  const path = join(folder, "agent.lock");
  const note = join(folder, "agent.lock.pid");
  const deadline = performance.now() + limitMs;
  for (;;) {
    const taken = take(path);
    if (taken instanceof DatabaseSync) {
      const me = { pid: process.pid, machine: hostname(), since: new Date().toISOString() };
      try {
        writeFileSync(note, `${JSON.stringify(me)}\n`, { mode: 0o600 });
      } catch (error) {
        log.warn({ err: error }, "could not record the holder of the data folder");
      }
      return { release: () => taken.close() };
    }
    if (taken.code !== sqliteBusy) {
      log.warn({ reason: taken.why }, "could not lock the data folder; make sure that only one agent uses it");
      return { release: () => {} };
    }
    if (performance.now() >= deadline) throw new FolderInUse(sentence(folder, note));
    await wait(retryMs);
  }
}

function take(path: string): DatabaseSync | { readonly code: number; readonly why: string } {
  let db: DatabaseSync | undefined;
  try {
    closeSync(openSync(path, "a", 0o600));
    db = new DatabaseSync(path, { timeout: 0 });
    db.exec("BEGIN EXCLUSIVE");
    return db;
  } catch (error) {
    db?.close();
    return { code: (error as { errcode?: number }).errcode ?? 0, why: (error as Error).message };
  }
}

function sentence(folder: string, note: string): string {
  const end = "one data folder is for one agent: end that one, or give this one its own folder with STOKER_AGENT_DATA";
  try {
    const { pid, machine, since } = JSON.parse(readFileSync(note, "utf8")) as Record<string, unknown>;
    return `another agent (pid ${pid} on ${machine}, since ${since}) runs on ${folder}: ${end}`;
  } catch {
    return `another agent runs on ${folder}: ${end}`;
  }
}
