// A host keeps its name even when the database is lost: beside it lies a small file that is only read then. Where that is
// lost too, machine and folder give the same name again, so that what carries the name in its labels is found.
import { createHash } from "node:crypto";
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { hostname } from "node:os";
import { resolve } from "node:path";
import type { Logger } from "pino";
import { type HostId, randomId } from "../../proto/ids.ts";

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** The name in the database, else the one in the file beside it, else a new one; both places hold it afterwards. */
export function chooseHostId(kept: string | undefined, path: string, log: Logger): HostId {
  const beside = read(path);
  const id = kept ?? beside ?? derivedId(path) ?? randomId<"host">(16);
  try {
    if (beside !== id) write(path, id);
  } catch (error) {
    log.warn({ err: error }, "the host's name could not be copied beside the state: losing the state would lose it");
  }
  return id as HostId;
}

/** Undefined where the machine has no identity of its own. Machines that were copied differ in their names, or are one. */
function derivedId(path: string): string | undefined {
  const machine = ["/etc/machine-id", "/var/lib/dbus/machine-id"]
    .map(textOf)
    .find((text) => /^[0-9a-f]{32}$/.test(text));
  if (machine === undefined) return undefined;
  const digest = createHash("sha256")
    .update(`stoker host\n${machine}\n${hostname()}\n${resolve(path)}`)
    .digest();
  return [...digest.subarray(0, 16)].map((byte) => alphabet[byte % alphabet.length]).join("");
}

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return "";
  }
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
