import { randomBytes } from "node:crypto";
import { closeSync, fsyncSync, linkSync, openSync, rmSync, writeSync } from "node:fs";
import { mkdir, open, readFile, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import type { Logger } from "pino";
import { OperatorError } from "./service-error.ts";

/** Writes the file atomically, readable by its owner only; it is on disk when the promise resolves. */
export async function writeFileAtomically(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const fresh = `${path}.${randomBytes(6).toString("hex")}`;
  const file = await open(fresh, "wx", 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
    await file.close();
    await rename(fresh, path);
  } catch (error) {
    await file.close().catch(() => {});
    await rm(fresh, { force: true });
    throw error;
  }
}

/**
 * Creates the file completely or not at all, and on disk when this returns. Throws EEXIST if it exists, also if another
 * process creates it in the meantime.
 */
export function createFileOnce(path: string, content: Uint8Array, mode: number): void {
  const fresh = `${path}.${randomBytes(6).toString("hex")}`;
  const file = openSync(fresh, "wx", mode);
  try {
    writeSync(file, content);
    fsyncSync(file);
    linkSync(fresh, path);
  } finally {
    closeSync(file);
    rmSync(fresh, { force: true });
  }
  const folder = openSync(dirname(path), "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

export class FileNotWritten extends OperatorError {
  override readonly name = "FileNotWritten";
}

/**
 * Writes a file unless it already has this content. If it cannot be written, keeps the file of an earlier start and logs a
 * warning; throws FileNotWritten if there is none.
 */
export async function keepFile(path: string, text: string, log: Pick<Logger, "warn">): Promise<void> {
  const kept = await readFile(path, "utf8").catch(() => undefined);
  if (kept === text) return;
  try {
    await writeFileAtomically(path, text);
  } catch (error) {
    const why = (error as Error).message;
    if (kept === undefined)
      throw new FileNotWritten(
        `${path} cannot be written (${why}). Free disk space or grant write access, then start again.`,
      );
    log.warn({ err: error, path }, "could not update a file; keeping that of an earlier start");
  }
}
