import { openSync, readFileSync, renameSync, statSync } from "node:fs";
import { join } from "node:path";

const maxBytes = 20e6;

/** Opens `<data>/logs/<name>.log` for appending; renames a large file to `.1` first. */
export function openLog(dataDir: string, name: string): number {
  const path = join(dataDir, "logs", `${name}.log`);
  if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) > maxBytes) renameSync(path, `${path}.1`);
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

/** Last line that is not JSON: the error message of a child. Lines of its logger may follow, because it writes asynchronously. */
export function lastSentence(dataDir: string, name: string): string {
  const lines = logTail(dataDir, name, 100).split("\n");
  return lines.findLast((line) => !line.startsWith("{")) ?? lines.at(-1) ?? "";
}
