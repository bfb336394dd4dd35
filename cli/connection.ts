// Server and key, in this order: flags, STOKER_HOST and STOKER_API_KEY, the profile, a server on this machine.
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { CliError, exitCode } from "./cli-error.ts";
import { profilePath, readProfile } from "./profile.ts";
import { isLoopback, runningUp } from "./running-up.ts";

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
