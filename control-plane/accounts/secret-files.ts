// The two secrets that are never in PostgreSQL. Made once, for an empty installation; a folder that lost one while accounts
// exist is an accident to be repaired, and new secrets would make every key unreadable.
import { randomBytes } from "node:crypto";
import { closeSync, fsyncSync, linkSync, mkdirSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { AccountSecrets } from "./envelope.ts";

const secretBytes = 32;
const kekVersion = 1;

/** The message is for the operator: what happened, why, what to do. */
export class SecretsMissing extends Error {
  override readonly name = "SecretsMissing";
}

/** `folder` holds `kek` and `pepper`, 32 random bytes each, mode 0400. Throws SecretsMissing. */
export function readSecretFiles(folder: string, hasAccounts: boolean): AccountSecrets {
  const kek = read(join(folder, "kek"));
  const pepper = read(join(folder, "pepper"));
  if (kek && pepper) return { kek, kekVersion, pepper };
  // The kek is made first: with it alone and no account, a first start was killed before it made the pepper.
  if (hasAccounts || pepper) {
    const missing = kek ? "pepper" : pepper ? "kek" : "kek and pepper";
    throw new SecretsMissing(
      `The database has accounts or keys whose secrets are gone: ${missing} is missing in ${folder}. ` +
        "Put the folder back from a backup; without it the API keys in the database cannot be read.",
    );
  }
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return { kek: kek ?? make(join(folder, "kek")), kekVersion, pepper: make(join(folder, "pepper")) };
}

function read(path: string): Buffer | undefined {
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new SecretsMissing(`${path} cannot be read: ${(error as Error).message}. Make it readable for this user.`);
  }
  if (bytes.length === secretBytes) return bytes;
  throw new SecretsMissing(
    `${path} has ${bytes.length} bytes instead of ${secretBytes}: it was cut or changed. Put it back from a backup.`,
  );
}

/**
 * Whole or not at all, and on disk before it is used: an account made with a secret that a power cut takes away would be
 * lost. Throws EEXIST when another start was faster.
 */
function make(path: string): Buffer {
  const bytes = randomBytes(secretBytes);
  const fresh = `${path}.${randomBytes(6).toString("hex")}`;
  const file = openSync(fresh, "wx", 0o400);
  try {
    writeSync(file, bytes);
    fsyncSync(file);
    linkSync(fresh, path);
  } finally {
    closeSync(file);
    rmSync(fresh, { force: true });
  }
  const folder = openSync(join(path, ".."), "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
  return bytes;
}
