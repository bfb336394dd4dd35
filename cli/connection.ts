// Server and key, in this order: flags, STOKER_HOST and STOKER_API_KEY, the profile in use, a server on this machine.

import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { CliError, exitCode } from "./cli-error.ts";
import { dataFolders, defaultFolders } from "./data-folders.ts";
import { chosenProfile, configPath, hostsIn, readConfig, requireProfile } from "./profiles.ts";
import { isLoopback, runningUp } from "./running-up.ts";

export interface Connection {
  readonly host: string;
  /** Other control planes of the same installation, used if the first is unreachable. */
  readonly others?: readonly string[];
  /** Throws CliError with exit code 3 if no key is found. Commands that need no key do not call it. */
  key(): string;
  /** Where the key is from. Undefined: there is none. */
  readonly keySource?: string | undefined;
  /** Name of the profile with this server. */
  readonly profile?: string | undefined;
  /** Data folder of the `up` on this machine that is the server. */
  readonly dataFolder?: string | undefined;
}

interface ConnectionFlags {
  readonly host?: string | undefined;
  readonly profile?: string | undefined;
  /** The command creates the profile. */
  readonly isNewProfile?: boolean;
}

export const localHost = "http://127.0.0.1:8080";

/** `home`: folder of this program, which holds the default data folder of `up`. */
export function findConnection(
  flags: ConnectionFlags,
  env: NodeJS.ProcessEnv,
  cwd: string,
  home = resolve(import.meta.dirname, ".."),
): Connection {
  const config = readConfig(env);
  const { name, profile: found } = chosenProfile(config, flags.profile, env);
  const isNamed = (flags.profile ?? env["STOKER_PROFILE"] ?? "") !== "";
  const profile = name !== undefined && isNamed && !flags.isNewProfile ? requireProfile(config, name) : found;
  // STOKER_PORT and STOKER_DATA configure `up` on this machine.
  const here = env["STOKER_PORT"] ? `http://127.0.0.1:${env["STOKER_PORT"]}` : undefined;
  const folders = [...new Set([...dataFolders(env, cwd, home), ...defaultFolders(cwd, home)])];
  // A profile named by the flag wins over the environment, one by STOKER_PROFILE or `stoker auth use` does not.
  const ofFlag = flags.profile === undefined ? undefined : profile;
  const ofHost = flags.host ?? (ofFlag ? undefined : env["STOKER_HOST"] || here);
  const given = ofHost === undefined ? (profile?.hosts ?? []) : hostsIn(ofHost);
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
  const own = profile && hosts.every((one) => profile.hosts.includes(one)) ? profile : undefined;
  const keyFile = localFiles.map((folder) => join(folder, "admin.key")).find((file) => existsSync(file));
  const fromProfile: Key | undefined = own && { source: configPath(env), read: () => own.key };
  const ofEnvironment = env["STOKER_API_KEY"];
  const fromEnvironment: Key | undefined = ofEnvironment
    ? { source: "STOKER_API_KEY", read: () => ofEnvironment }
    : undefined;
  const fromFile: Key | undefined = keyFile ? { source: keyFile, read: () => readKey(keyFile) } : undefined;
  const key = (ofFlag && fromProfile) ?? fromEnvironment ?? fromProfile ?? fromFile;
  return {
    host,
    others,
    profile: own && name,
    dataFolder: isHere ? running?.folder : undefined,
    keySource: key?.source,
    key() {
      if (key) return key.read();
      throw new CliError(
        `No API key for ${host}. Set STOKER_API_KEY, or run 'stoker login'.${notRunning}`,
        exitCode.notAuthenticated,
      );
    },
  };
}

interface Key {
  readonly source: string;
  readonly read: () => string;
}

function readKey(path: string): string {
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
