import { openSync, readFileSync, renameSync, statSync } from "node:fs";
import { join } from "node:path";

const largestBytes = 20e6;

/** Opens `<data>/logs/<name>.log` for appending; a file that grew large is set aside as `.1` first. */
export function openLog(dataDir: string, name: string): number {
  const path = join(dataDir, "logs", `${name}.log`);
  if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) > largestBytes) renameSync(path, `${path}.1`);
  return openSync(path, "a", 0o600);
}

/** The last lines of a log, for a message about a child that failed. */
export function logTail(dataDir: string, name: string, lines = 5): string {
  try {
    const text = readFileSync(join(dataDir, "logs", `${name}.log`), "utf8").slice(-8000);
    return text.trimEnd().split("\n").slice(-lines).join("\n");
  } catch {
    return "(no log)";
  }
}
