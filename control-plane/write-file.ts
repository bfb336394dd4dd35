import { randomBytes } from "node:crypto";
import { mkdir, open, readFile, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import type { Logger } from "pino";
import { OperatorError } from "./service-error.ts";

/** The whole file or nothing of it, readable by its owner only, on disk when the promise resolves. */
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

export class FileNotWritten extends OperatorError {
  override readonly name = "FileNotWritten";
}

/**
 * A file that every start writes: left alone where it says this already. Where it cannot be written (the disk is full) the one
 * of an earlier start stays and the log says so; without one it throws FileNotWritten with a sentence for the operator.
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
        `${path} cannot be written (${why}); make room or give the right to it, then start again.`,
      );
    log.warn({ err: error, path }, "a file could not be written anew: that of an earlier start stays");
  }
}
