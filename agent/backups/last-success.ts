// When a backup last succeeded on this host: the time of an empty file, which a restart of the agent leaves alone.
import { statSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export interface LastSuccess {
  /** Unix seconds; undefined: never, or nobody wrote it down. */
  read(): number | undefined;
  /** Now. Throws where the file cannot be written. */
  note(): void;
}

export function lastSuccess(folder: string): LastSuccess {
  const file = join(folder, "last-backup");
  return {
    read() {
      const found = statSync(file, { throwIfNoEntry: false });
      return found && found.mtimeMs / 1000;
    },
    note: () => writeFileSync(file, "", { mode: 0o600 }),
  };
}
