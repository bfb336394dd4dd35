// The secrets folder of an installation in a backup, and its replacement by a restore.
import { mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { BackupRefused } from "./refused.ts";

export interface SecretFile {
  readonly name: string;
  readonly mode: number;
  readonly base64: string;
}

/** Inside the secrets folder, so that files can be renamed into place. */
const staging = ".restoring";
/** The password of the PostgreSQL that `up` runs belongs to that PostgreSQL. */
const ofThisMachine = "postgres.password";

const namesIn = (folder: string) => readdir(folder).catch((): string[] => []);

export async function readSecretsFolder(folder: string): Promise<readonly SecretFile[]> {
  const files: SecretFile[] = [];
  for (const name of (await namesIn(folder)).toSorted()) {
    const path = join(folder, name);
    const found = await stat(path);
    if (name.startsWith(".") || !found.isFile()) continue;
    files.push({ name, mode: found.mode & 0o777, base64: (await readFile(path)).toString("base64") });
  }
  return files;
}

export async function hasSecrets(folder: string): Promise<boolean> {
  return (await namesIn(folder)).some((name) => name !== ofThisMachine && name !== staging);
}

export interface StagedSecrets {
  /** Puts each file in its place; files that the backup lacks stay. Throws BackupRefused. */
  place(): Promise<void>;
  discard(): Promise<void>;
}

/**
 * Writes the files that differ from those in the folder beside them, so that a full disk or a missing right shows before the
 * database is replaced. Throws BackupRefused.
 */
export async function stageSecrets(folder: string, files: readonly SecretFile[]): Promise<StagedSecrets> {
  const held = new Map((await readSecretsFolder(folder)).map((file) => [file.name, file]));
  const changed = files.filter(
    ({ name, base64 }) => held.get(name)?.base64 !== base64 && !(name === ofThisMachine && held.has(name)),
  );
  const fresh = join(folder, staging);
  const discard = () => rm(fresh, { recursive: true, force: true });
  try {
    // A killed restore leaves it.
    await discard();
    if (changed.length > 0) await mkdir(fresh, { recursive: true, mode: 0o700 });
    for (const { name, mode, base64 } of changed) await write(join(fresh, name), mode, Buffer.from(base64, "base64"));
  } catch (cause) {
    await discard().catch(() => {});
    throw new BackupRefused(
      `The secrets folder ${folder} cannot be written: ${(cause as Error).message}. Nothing was replaced.`,
      { cause },
    );
  }
  return {
    async place() {
      try {
        for (const { name } of changed) await rename(join(fresh, name), join(folder, name));
        if (changed.length > 0) await sync(folder);
      } catch (cause) {
        throw new BackupRefused(
          `The database is restored, but ${folder} could not be written: ${(cause as Error).message}. ` +
            "Correct that, then run the restore again with --replace before a control plane starts.",
          { cause },
        );
      }
    },
    discard,
  };
}

async function write(path: string, mode: number, content: Buffer): Promise<void> {
  const file = await open(path, "wx", mode);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
}

async function sync(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  await handle.sync().finally(() => handle.close());
}
