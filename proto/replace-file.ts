import { readFileSync, renameSync, writeFileSync } from "node:fs";

/** Replaces a file in one step, readable only by its owner. `isDurable`: it is on disk when this returns. */
export function replaceFileSync(path: string, text: string, { isDurable = true } = {}): void {
  writeFileSync(`${path}.new`, text, { mode: 0o600, flush: isDurable });
  renameSync(`${path}.new`, path);
}

/** Returns the text of a file; undefined if there is none. */
export function readIfPresent(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
