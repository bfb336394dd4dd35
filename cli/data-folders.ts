// Data folders of the `up`s on this machine. An `up` notes its folder in the state folder of its user (scripts/supervisor/lock.ts),
// so that commands also find one that was started with --data.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { runningUp } from "./running-up.ts";

/** Folder with one file per running `up`, named by its pid and containing the path of its data folder. */
export const notesFolder = (env: NodeJS.ProcessEnv): string =>
  join(env["XDG_STATE_HOME"] || join(homedir(), ".local", "state"), "stoker", "up");

/** Data folders that running `up`s noted, the latest first. */
export function notedFolders(env: NodeJS.ProcessEnv): readonly string[] {
  const notes = notesFolder(env);
  try {
    return readdirSync(notes)
      .map((name) => ({ path: join(notes, name), at: statSync(join(notes, name)).mtimeMs }))
      .toSorted((one, other) => other.at - one.at)
      .map(({ path }) => readFileSync(path, "utf8").trim())
      .filter((folder) => runningUp(folder) !== undefined);
  } catch {
    return [];
  }
}

/** `home`: folder of this program. */
export const defaultFolders = (cwd: string, home = resolve(import.meta.dirname, "..")): readonly string[] => [
  ...new Set([join(cwd, ".stoker"), join(home, ".stoker")]),
];

/** With STOKER_DATA, only that folder; otherwise the default ones and those that are noted. */
export function dataFolders(env: NodeJS.ProcessEnv, cwd: string, home?: string): readonly string[] {
  const named = env["STOKER_DATA"];
  if (named) return [resolve(cwd, named)];
  return [...new Set([...defaultFolders(cwd, home), ...notedFolders(env)])];
}

/** Puts the folders of running `up`s first. */
export const runningFirst = (folders: readonly string[]): readonly string[] =>
  folders.toSorted((one, other) => Number(runningUp(other) !== undefined) - Number(runningUp(one) !== undefined));
