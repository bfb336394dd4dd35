// Without a control plane nobody gives ticket keys: whoever may read this file may sign.
import { randomBytes } from "node:crypto";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const keyBytes = 32;

/** 32 bytes, made once, kept as base64 in `<data>/local-ticket.key`. A file that was cut is made anew: a short key is none. */
export function localTicketKey(dataDir: string): Buffer {
  const path = join(dataDir, "local-ticket.key");
  const kept = read(path);
  if (kept?.length === keyBytes) return kept;
  const key = randomBytes(keyBytes);
  writeFileSync(`${path}.new`, `${key.toString("base64")}\n`, { mode: 0o600, flush: true });
  renameSync(`${path}.new`, path);
  return key;
}

function read(path: string): Buffer | undefined {
  try {
    return Buffer.from(readFileSync(path, "utf8").trim(), "base64");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
