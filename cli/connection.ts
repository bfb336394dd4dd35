// Server and key, in this order: flags, STOKER_HOST and STOKER_API_KEY, the profile, a server on this machine.

import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { homedir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { parseEnv } from "node:util";
import { CliError, exitCode } from "./cli-error.ts";

export interface Connection {
  readonly host: string;
  /** Other control planes of the same installation, used if the first is unreachable. */
  readonly others?: readonly string[];
  /** Throws CliError with exit code 3 if no key is found. Commands that need no key do not call it. */
  key(): string;
}

export const localHost = "http://127.0.0.1:8080";

/** `home`: folder of this program, which holds the default data folder of `up`. */
export function findConnection(
  flagHost: string | undefined,
  env: NodeJS.ProcessEnv,
  cwd: string,
  home = resolve(import.meta.dirname, ".."),
): Connection {
  const profile = readProfile(profilePath(env));
  // STOKER_PORT and STOKER_DATA configure `up` on this machine.
  const here = env["STOKER_PORT"] ? `http://127.0.0.1:${env["STOKER_PORT"]}` : undefined;
  const folders = [join(cwd, ".stoker"), join(home, ".stoker")];
  if (env["STOKER_DATA"]) folders.unshift(resolve(cwd, env["STOKER_DATA"]));
  const given = hostsIn(flagHost ?? env["STOKER_HOST"] ?? here ?? profile["STOKER_HOST"] ?? "");
  // The data folder of a running `up` names its port.
  const running = folders
    .map(runningUp)
    .find((up) => up !== undefined && given.every((one) => one === up.url || up.others.includes(one)));
  const notRunning =
    given.length === 0 && !running && env["STOKER_DATA"]
      ? ` Stoker is not running on the data folder ${folders[0]} (STOKER_DATA).`
      : "";
  const hosts = given.length > 0 ? given : running ? [running.url, ...running.others] : [localHost];
  for (const host of hosts) {
    if (!URL.canParse(host) || !/^https?:$/.test(new URL(host).protocol))
      throw new CliError(`Invalid host URL ${host}. Example: http://127.0.0.1:8080`, exitCode.wrongUsage);
  }
  const [host = localHost, ...others] = hosts;
  // The key of a server on this machine is never sent to another one.
  const isHere = hosts.every((one) => isLoopback(new URL(one).hostname));
  const localFiles = isHere ? [...(running ? [running.folder] : []), ...folders] : [];
  const profileHosts = hostsIn(profile["STOKER_HOST"] ?? localHost);
  return {
    host,
    others,
    key() {
      const fromProfile = hosts.every((one) => profileHosts.includes(one)) ? profile["STOKER_API_KEY"] : undefined;
      const key =
        env["STOKER_API_KEY"] ?? readFirst(localFiles.map((folder) => join(folder, "admin.key"))) ?? fromProfile;
      if (key === undefined || key === "") {
        throw new CliError(
          `No API key for ${host}. Set STOKER_API_KEY, or run 'stoker login'.${notRunning}`,
          exitCode.notAuthenticated,
        );
      }
      return key;
    },
  };
}

/** `http://one:8080,http://two:8080`: control planes of one installation. */
export const hostsIn = (text: string): readonly string[] =>
  text
    .split(",")
    .map((one) => one.trim().replace(/\/+$/, ""))
    .filter((one) => one !== "");

function readFirst(paths: readonly string[]): string | undefined {
  const path = paths.find((candidate) => existsSync(candidate));
  if (path === undefined) return undefined;
  try {
    return readFileSync(path, "utf8").trim();
  } catch (cause) {
    throw new CliError(
      `Could not read ${path}. Run this command as the user who started Stoker.`,
      exitCode.notAuthenticated,
      {
        cause,
      },
    );
  }
}

// Finds a running `up` on this machine by the lock of its data folder (scripts/supervisor/lock.ts).
interface RunningUp {
  readonly folder: string;
  /** URL of the API, as seen from this machine. */
  readonly url: string;
  /** URLs of the other control planes. */
  readonly others: readonly string[];
}

/**
 * Undefined if none runs there, or the lock is not trusted. The key is sent to the URL of the lock and the folder may belong to
 * another user, so the lock must belong to this user or root, and its URLs must be on this machine.
 */
function runningUp(folder: string): RunningUp | undefined {
  try {
    const lock = JSON.parse(readOwn(join(folder, "up.lock"))) as { pid: unknown; url: unknown; others?: unknown };
    const { pid, url, others = [] } = lock;
    const isValid = typeof pid === "number" && isLocalUrl(url) && Array.isArray(others) && others.every(isLocalUrl);
    return isValid && isAlive(pid) ? { folder, url, others } : undefined;
  } catch {
    return undefined;
  }
}

const isLocalUrl = (url: unknown): url is string =>
  typeof url === "string" && /^https?:\/\//.test(url) && isLoopback(new URL(url).hostname);

/** `hostname`: as `URL.hostname` returns it. */
const isLoopback = (hostname: string): boolean =>
  hostname === "localhost" || hostname === "[::1]" || /^127(\.\d{1,3}){3}$/.test(hostname);

/** Throws if the file belongs to another user. Checks the open file, because the path can be replaced in between. */
function readOwn(path: string): string {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const { uid } = fstatSync(file);
    if (uid !== 0 && uid !== process.getuid?.()) throw new Error(`${path} belongs to another user.`);
    return readFileSync(file, "utf8");
  } finally {
    closeSync(file);
  }
}

/** A killed `up` leaves its lock behind. */
function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

// Server and key of the current user. The file is readable only by that user.
export function profilePath(env: NodeJS.ProcessEnv): string {
  return join(env["XDG_CONFIG_HOME"] ?? join(homedir(), ".config"), "stoker", "profile");
}

export function readProfile(path: string): NodeJS.Dict<string> {
  return existsSync(path) ? parseEnv(readFileSync(path, "utf8")) : {};
}

export function writeProfile(path: string, host: string, key: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  // Writing keeps the mode of an existing file.
  if (existsSync(path)) chmodSync(path, 0o600);
  writeFileSync(path, `STOKER_HOST=${host}\nSTOKER_API_KEY=${key}\n`, { mode: 0o600 });
}

export function removeProfile(path: string): void {
  rmSync(path, { force: true });
}
