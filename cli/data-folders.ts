// Data folders of the `up`s on this machine. An `up` notes its folder in the state folder of its user (scripts/supervisor/lock.ts),
// so that commands also find one that was started with --data.
import { closeSync, constants, fstatSync, lstatSync, openSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { runningUp } from "./running-up.ts";

/** Folder with one file per running `up`, which contains the path of its data folder. */
export const notesFolder = (env: NodeJS.ProcessEnv): string =>
  join(env["XDG_STATE_HOME"] || join(homedir(), ".local", "state"), "stoker", "up");

/** `4026531836-1234`: name of the note of a process. A folder can be shared by containers, whose pids are the same. */
export const noteName = (pid: number | string): string => `${pidNamespace()}-${pid}`;

function pidNamespace(): string {
  try {
    return readlinkSync("/proc/self/ns/pid").replace(/\D/g, "");
  } catch {
    // Only Linux has pid namespaces.
    return "0";
  }
}

/** Returns true for a folder that no other user can write to or replace files in; false for a link. */
export function isOwnFolder(path: string): boolean {
  const found = lstatSync(path, { throwIfNoEntry: false });
  return found?.isDirectory() === true && found.uid === process.getuid?.() && (found.mode & 0o077) === 0;
}

interface Note {
  readonly path: string;
  readonly pid: number;
  /** Data folder that it names. */
  readonly data: string;
  /** Unix ms. */
  readonly writtenAtMs: number;
}

/** Notes of this pid namespace, the latest first. */
export function notesIn(folder: string): readonly Note[] {
  if (!isOwnFolder(folder)) return [];
  return readdirSync(folder)
    .flatMap((name) => {
      const pid = /^\d+-(\d+)$/.exec(name)?.[1];
      const note = pid !== undefined && name === noteName(pid) ? readNote(join(folder, name), Number(pid)) : undefined;
      return note ? [note] : [];
    })
    .toSorted((one, other) => other.writtenAtMs - one.writtenAtMs);
}

/** Undefined if it was removed in between, or is no file. */
function readNote(path: string, pid: number): Note | undefined {
  try {
    const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      const state = fstatSync(file);
      if (!state.isFile()) return undefined;
      return { path, pid, data: readFileSync(file, "utf8").trim(), writtenAtMs: state.mtimeMs };
    } finally {
      closeSync(file);
    }
  } catch {
    return undefined;
  }
}

/** Data folders that running `up`s noted, the latest first. */
export function notedFolders(env: NodeJS.ProcessEnv): readonly string[] {
  try {
    return notesIn(notesFolder(env))
      .map(({ data }) => data)
      .filter((folder) => runningUp(folder) !== undefined);
  } catch {
    // The folder cannot be read.
    return [];
  }
}

/** `home`: folder of this program. */
export const defaultFolders = (cwd: string, home = resolve(import.meta.dirname, "..")): readonly string[] => [
  ...new Set([join(cwd, ".stoker"), join(home, ".stoker")]),
];

/** With STOKER_DATA, only that folder; otherwise the default ones and those that are noted. For commands that only read. */
export function dataFolders(env: NodeJS.ProcessEnv, cwd: string, home?: string): readonly string[] {
  return [...new Set([...namedFolders(env, cwd, home), ...(env["STOKER_DATA"] ? [] : notedFolders(env))])];
}

/**
 * With STOKER_DATA, only that folder; otherwise the default ones. For commands that change an installation: another one is changed
 * only if it is named.
 */
export function namedFolders(env: NodeJS.ProcessEnv, cwd: string, home?: string): readonly string[] {
  const named = env["STOKER_DATA"];
  return named ? [resolve(cwd, named)] : defaultFolders(cwd, home);
}

/** Sentence that names the `up`s of this user on other folders; empty without any. */
export function othersText(folders: readonly string[], env: NodeJS.ProcessEnv): string {
  const others = notedFolders(env).filter((folder) => !folders.includes(folder));
  if (others.length === 0) return "";
  const flags = others.map((folder) => `--data ${folder}`).join(" or ");
  return ` An \`up\` runs on another data folder; name it with ${flags}.`;
}

/** Puts the folders of running `up`s first. */
export const runningFirst = (folders: readonly string[]): readonly string[] =>
  folders.toSorted((one, other) => Number(runningUp(other) !== undefined) - Number(runningUp(one) !== undefined));
