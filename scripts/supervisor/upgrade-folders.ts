// Folders of an upgrade of the embedded PostgreSQL to another major version, and what `up` does when it finds them.
import { execFileSync } from "node:child_process";
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { PostgresHome } from "./postgres-home.ts";
import { UpError } from "./up-error.ts";

const clusterOf = (folder: string): string => join(folder, "cluster");
/** Files that are being written. Incomplete, and replaced by the next upgrade. */
export const draftOf = (folder: string): string => join(folder, "cluster.upgrading");
/** Complete and compared. If there is no `cluster`, this is the database. */
const upgradedOf = (folder: string): string => join(folder, "cluster.upgraded");

/** Major version of the programs. Throws UpError if they cannot be run. */
export function programsMajor(bin: string): number {
  try {
    const text = execFileSync(join(bin, "postgres"), ["--version"], { encoding: "utf8", timeout: 10_000 });
    return Number(/\(PostgreSQL\) (\d+)/.exec(text)?.[1] ?? 0);
  } catch (cause) {
    throw new UpError(`The program postgres in ${bin} cannot be run: ${(cause as Error).message}.`, { cause });
  }
}

/** Major version that wrote the files; undefined: there are none. */
export function clusterMajor(folder: string): number | undefined {
  const file = join(clusterOf(folder), "PG_VERSION");
  return existsSync(file) ? Number(readFileSync(file, "utf8").trim()) : undefined;
}

/** Throws UpError unless the programs can start the files. */
export function requireSameMajor(home: Pick<PostgresHome, "bin" | "folder">, dataDir: string): void {
  const found = clusterMajor(home.folder);
  if (found === undefined) return;
  const ours = programsMajor(home.bin);
  if (found === ours) return;
  const what = `The database in ${home.folder} was written by PostgreSQL ${found}, and this version of Stoker runs PostgreSQL ${ours}.`;
  throw new UpError(
    found < ours
      ? `${what} Upgrade it with: ./scripts/up --upgrade-database --data ${dataDir}`
      : `${what} Start the version of Stoker that wrote it, or restore a backup made before the upgrade.`,
  );
}

/** Completes the renames of an upgrade that was killed between them, and removes new files that were never put in place. */
export function finishUpgrade(folder: string, note: (text: string) => void): void {
  if (!existsSync(upgradedOf(folder))) return;
  if (existsSync(clusterOf(folder))) {
    // The old release may have written since, so they must never become the database.
    rmSync(upgradedOf(folder), { recursive: true, force: true });
    return;
  }
  renameSync(upgradedOf(folder), clusterOf(folder));
  syncFolder(folder);
  note("completed the upgrade of the database that was interrupted");
}

/** Puts the complete draft in the place of the old files. Returns the folder that keeps the old ones. */
export function placeUpgraded(folder: string, oldMajor: number, password: string): string {
  const kept = freeName(join(folder, `cluster.postgresql-${oldMajor}`));
  // An earlier release that starts between the renames finds no database: it creates one and overwrites the password.
  writeFileSync(`${kept}.password`, `${password}\n`, { mode: 0o600, flush: true });
  renameSync(draftOf(folder), upgradedOf(folder));
  syncFolder(folder);
  renameSync(clusterOf(folder), kept);
  finishUpgrade(folder, () => {});
  return kept;
}

function freeName(path: string): string {
  let free = path;
  for (let number = 2; existsSync(free); number += 1) free = `${path}.${number}`;
  return free;
}

function syncFolder(folder: string): void {
  const handle = openSync(folder, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
