// Time of the last successful backup on this host: the time of an empty file, which survives a restart of the agent.
import { statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Logger } from "pino";

export interface LastSuccess {
  /** Unix seconds; undefined: never, or not recorded. */
  read(): number | undefined;
  /** Now. Where the file cannot be written (a full disk) the time is lost at the next start, and the backup is none the worse. */
  note(): void;
}

export function lastSuccess(folder: string, log: Pick<Logger, "warn">): LastSuccess {
  const file = join(folder, "last-backup");
  return {
    read() {
      const found = statSync(file, { throwIfNoEntry: false });
      return found && found.mtimeMs / 1000;
    },
    note() {
      try {
        writeFileSync(file, "", { mode: 0o600 });
      } catch (err) {
        log.warn({ err }, "the time of the last backup could not be written down");
      }
    },
  };
}
