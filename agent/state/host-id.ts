// A host keeps its name when the database is lost: a small file beside it holds a copy. If that is lost too, the name is derived
// from machine and folder again, so that containers labelled with it are found.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { resolve } from "node:path";
import type { Logger } from "pino";
import { type HostId, randomId } from "../../proto/ids.ts";
import { replaceFileSync } from "../../proto/replace-file.ts";

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** Returns the name in the database, otherwise the one in the file, otherwise a new one. Afterwards both contain it. */
export function chooseHostId(kept: string | undefined, path: string, log: Logger): HostId {
  const text = textOf(path);
  const beside = /^[0-9A-Za-z]{16}$/.test(text) ? text : undefined;
  const id = kept ?? beside ?? derivedId(path) ?? randomId<"host">(16);
  try {
    if (beside !== id) replaceFileSync(path, `${id}\n`);
  } catch (error) {
    log.warn({ err: error }, "could not copy the host's name beside the state; it will be lost with the state");
  }
  return id as HostId;
}

/** Undefined on a machine without an identity. Copied machines must differ in their names. */
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
