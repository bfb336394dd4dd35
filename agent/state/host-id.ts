// A host keeps its name even when the database is lost: beside it lies a small file that is only read then.
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import type { Logger } from "pino";
import { type HostId, randomId } from "../../proto/ids.ts";

/** The name in the database, else the one in the file beside it, else a new one; both places hold it afterwards. */
export function chooseHostId(kept: string | undefined, path: string, log: Logger): HostId {
  const beside = read(path);
  const id = kept ?? beside ?? randomId<"host">(16);
  try {
    if (beside !== id) write(path, id);
  } catch (error) {
    log.warn({ err: error }, "the host's name could not be copied beside the state: losing the state would lose it");
  }
  return id as HostId;
}

function read(path: string): string | undefined {
  try {
    const text = readFileSync(path, "utf8").trim();
    return /^[0-9A-Za-z]{16}$/.test(text) ? text : undefined;
  } catch {
    return undefined;
  }
}

function write(path: string, id: string): void {
  const file = openSync(`${path}.new`, "w", 0o600);
  try {
    writeSync(file, `${id}\n`);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(`${path}.new`, path);
}
