// Secrets outside PostgreSQL: key-encryption keys and the pepper. Created once, for an empty installation. If one is missing
// while accounts exist, the operator must restore it: a new one would make every key unreadable.
import { randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { OperatorError } from "../service-error.ts";
import { createFileOnce } from "../write-file.ts";
import type { AccountSecrets, Kek } from "./envelope.ts";

const secretBytes = 32;

/** The message is for the operator: what happened, why, what to do. */
export class SecretsMissing extends OperatorError {
  override readonly name = "SecretsMissing";
  override readonly exitCode = 78;
}

/** Secrets of a folder to which a rotation may add keys. */
export interface SecretFiles extends AccountSecrets {
  readonly folder: string;
  /** Returns true when the folder has new keys. A key whose file was removed stays loaded. Throws SecretsMissing. */
  reread(): boolean;
  /** Creates the next key-encryption key, or loads the one that another process created concurrently. */
  addKek(): Kek;
}

export const kekFile = (version: number): string => (version === 1 ? "kek" : `kek.${version}`);

/** Reads `kek`, `kek.2`, ... and `pepper` from the folder, 32 random bytes each, mode 0400. Throws SecretsMissing. */
export function readSecretFiles(folder: string, hasAccounts: boolean): SecretFiles {
  const keks = readKeks(folder);
  const pepper = read(join(folder, "pepper"));
  if (keks.length > 0 && pepper) return secretFiles(folder, keks, pepper);
  // The kek is created first: if only it exists and there is no account, a first start was killed before the pepper.
  if (hasAccounts || pepper) {
    const missing = keks.length > 0 ? "pepper" : pepper ? "kek" : "kek and pepper";
    throw new SecretsMissing(
      `The database has accounts or keys, but ${missing} is missing in ${folder}. ` +
        "Restore the folder from a backup; without it the API keys in the database cannot be read.",
    );
  }
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const first = keks.length > 0 ? keks : [{ version: 1, bytes: make(join(folder, kekFile(1))) }];
  return secretFiles(folder, first, make(join(folder, "pepper")));
}

/** Returns the secrets from file contents by name. Throws SecretsMissing. */
export function accountSecretsOf(files: ReadonlyMap<string, Buffer>): AccountSecrets {
  const keks = [...files].flatMap(([name, bytes]) => {
    const version = kekVersion(name);
    return version === undefined ? [] : [{ version, bytes }];
  });
  const pepper = files.get("pepper");
  if (pepper && keks.length > 0) return { keks: newestFirst(keks), pepper };
  throw new SecretsMissing(`The secrets lack ${pepper ? "kek" : "pepper"}.`);
}

function secretFiles(folder: string, found: readonly Kek[], pepper: Buffer): SecretFiles {
  let keks = found;
  function reread(): boolean {
    const known = new Set(keks.map(({ version }) => version));
    const added = readKeks(folder).filter(({ version }) => !known.has(version));
    if (added.length > 0) keks = newestFirst([...keks, ...added]);
    return added.length > 0;
  }
  return {
    folder,
    pepper,
    get keks() {
      return keks;
    },
    reread,
    addKek() {
      const version = (keks[0]?.version ?? 0) + 1;
      try {
        make(join(folder, kekFile(version)));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      }
      reread();
      const added = keks.find((kek) => kek.version === version);
      if (!added) throw new SecretsMissing(`${join(folder, kekFile(version))} was created and then removed.`);
      return added;
    },
  };
}

const newestFirst = (keks: readonly Kek[]): readonly Kek[] =>
  keks.toSorted((one, other) => other.version - one.version);

function readKeks(folder: string): readonly Kek[] {
  return newestFirst(
    namesIn(folder).flatMap((name) => {
      const version = kekVersion(name);
      const bytes = version === undefined ? undefined : read(join(folder, name));
      return version !== undefined && bytes ? [{ version, bytes }] : [];
    }),
  );
}

/** Undefined when the file is not a key-encryption key. */
function kekVersion(name: string): number | undefined {
  if (name === "kek") return 1;
  const version = Number(/^kek\.([1-9]\d{0,8})$/.exec(name)?.[1]);
  return Number.isNaN(version) ? undefined : version;
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw new SecretsMissing(`${folder} cannot be read: ${(error as Error).message}. Make it readable for this user.`);
  }
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
    `${path} has ${bytes.length} bytes instead of ${secretBytes}: it was truncated or changed. Restore it from a backup.`,
  );
}

/** On disk before use: an account created with a secret that a power failure removes would be lost. */
function make(path: string): Buffer {
  const bytes = randomBytes(secretBytes);
  createFileOnce(path, bytes, 0o400);
  return bytes;
}
