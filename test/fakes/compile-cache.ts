import { readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Folder in which Node keeps compiled code of the processes that tests start: a third of a control plane's start. */
export const compileCache = join(tmpdir(), "stoker-test-compiled");

/**
 * Removes entries of `folder` that were written more than `keepMs` ago. Node compiles a missing file again, so that another run
 * loses only time.
 */
export function removeStaleCode(folder: string, keepMs: number): void {
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    const path = join(folder, name);
    // Another run may remove it at the same time.
    const found = statSync(path, { throwIfNoEntry: false });
    if (found?.isFile() && Date.now() - found.mtimeMs > keepMs) rmSync(path, { force: true });
  }
}
