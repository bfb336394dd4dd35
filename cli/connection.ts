// Which server and which key: flags, then STOKER_HOST and STOKER_API_KEY, then the profile, then a server on this machine.
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { CliError, exitCode } from "./cli-error.ts";
import { profilePath, readProfile } from "./profile.ts";
import { isLoopback, runningUp } from "./running-up.ts";

export interface Connection {
  readonly host: string;
  /** Throws CliError (3) where no key is found; commands that need none never ask. */
  key(): string;
}

export const localHost = "http://127.0.0.1:8080";

/** `home`: where this program lies, and with it the data folder of an `up` that was told none. */
export function findConnection(
  flagHost: string | undefined,
  env: NodeJS.ProcessEnv,
  cwd: string,
  home = resolve(import.meta.dirname, ".."),
): Connection {
  const profile = readProfile(profilePath(env));
  // STOKER_PORT and STOKER_DATA are those of `up` on this machine.
  const here = env["STOKER_PORT"] ? `http://127.0.0.1:${env["STOKER_PORT"]}` : undefined;
  const folders = [join(cwd, ".stoker"), join(home, ".stoker")];
  if (env["STOKER_DATA"]) folders.unshift(resolve(cwd, env["STOKER_DATA"]));
  const given = (flagHost ?? env["STOKER_HOST"] ?? here ?? profile["STOKER_HOST"])?.replace(/\/+$/, "");
  // The folder of an `up` that runs says on which port.
  const running = folders.map(runningUp).find((up) => up !== undefined && (given === undefined || up.url === given));
  const host = given ?? running?.url ?? localHost;
  if (!URL.canParse(host) || !/^https?:$/.test(new URL(host).protocol)) {
    throw new CliError(`The host ${host} is no URL; give it as http://127.0.0.1:8080.`, exitCode.wrongUsage);
  }
  // The key of a server on this machine is never sent to another one.
  const localFiles = isLoopback(new URL(host).hostname) ? [...(running ? [running.folder] : []), ...folders] : [];
  return {
    host,
    key() {
      const fromProfile = (profile["STOKER_HOST"] ?? localHost) === host ? profile["STOKER_API_KEY"] : undefined;
      const key =
        env["STOKER_API_KEY"] ?? readFirst(localFiles.map((folder) => join(folder, "admin.key"))) ?? fromProfile;
      if (key === undefined || key === "") {
        throw new CliError(
          `There is no API key for ${host}: set STOKER_API_KEY, or get one with 'stoker login'.`,
          exitCode.notAuthenticated,
        );
      }
      return key;
    },
  };
}

function readFirst(paths: readonly string[]): string | undefined {
  const path = paths.find((candidate) => existsSync(candidate));
  if (path === undefined) return undefined;
  try {
    return readFileSync(path, "utf8").trim();
  } catch (cause) {
    throw new CliError(`${path} cannot be read; run this as the user who started Stoker.`, exitCode.notAuthenticated, {
      cause,
    });
  }
}
