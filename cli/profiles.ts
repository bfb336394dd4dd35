// Servers and keys of the current user, by name, in one file that only this user can read.
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { parseEnv } from "node:util";
import { CliError, exitCode } from "./cli-error.ts";

export interface Profile {
  /** URLs of the control planes of one installation. */
  readonly hosts: readonly string[];
  readonly key: string;
}

export interface Config {
  /** Name of the profile in use. Undefined: none was chosen. */
  readonly current?: string | undefined;
  readonly profiles: Readonly<Record<string, Profile>>;
}

const firstName = "default";
const namePattern = /^[\w.:-]{1,64}$/;

/** `http://one:8080,http://two:8080`: control planes of one installation. */
export const hostsIn = (text: string): readonly string[] =>
  text
    .split(",")
    .map((one) => one.trim().replace(/\/+$/, ""))
    .filter((one) => one !== "");

export const configPath = (env: NodeJS.ProcessEnv): string => join(folderOf(env), "config.json");
const folderOf = (env: NodeJS.ProcessEnv): string =>
  join(env["XDG_CONFIG_HOME"] ?? join(homedir(), ".config"), "stoker");

/** Earlier versions stored one server in this file. */
const oldPath = (env: NodeJS.ProcessEnv): string => join(folderOf(env), "profile");

/** Throws CliError if the file cannot be read. */
export function readConfig(env: NodeJS.ProcessEnv): Config {
  const path = configPath(env);
  if (!existsSync(path)) return readOld(oldPath(env));
  try {
    const { current, profiles } = JSON.parse(readFileSync(path, "utf8")) as Partial<Config>;
    const valid = Object.entries(profiles ?? {}).every(
      ([, { hosts, key }]) => Array.isArray(hosts) && typeof key === "string",
    );
    if (!profiles || !valid) throw new Error("not the expected fields");
    return { current, profiles };
  } catch (cause) {
    throw new CliError(
      `Could not read ${path}: ${(cause as Error).message}. Correct or remove it.`,
      exitCode.wrongUsage,
      { cause },
    );
  }
}

function readOld(path: string): Config {
  if (!existsSync(path)) return { profiles: {} };
  const { STOKER_HOST: host = "", STOKER_API_KEY: key } = parseEnv(readFileSync(path, "utf8"));
  if (key === undefined) return { profiles: {} };
  return { current: firstName, profiles: { [firstName]: { hosts: hostsIn(host), key } } };
}

/** Replaces the file in one step, and removes the file of earlier versions. */
export function writeConfig(env: NodeJS.ProcessEnv, config: Config): void {
  const path = configPath(env);
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, `${JSON.stringify(config, undefined, 2)}\n`, { mode: 0o600 });
  renameSync(draft, path);
  rmSync(oldPath(env), { force: true });
}

/** Name and profile by flag, STOKER_PROFILE, otherwise the one in use. Undefined if it does not exist. */
export function chosenProfile(
  config: Config,
  flag: string | undefined,
  env: NodeJS.ProcessEnv,
): { readonly name: string | undefined; readonly profile: Profile | undefined } {
  const name = flag ?? (env["STOKER_PROFILE"] || config.current);
  return { name, profile: name === undefined ? undefined : ownProfile(config, name) };
}

const ownProfile = ({ profiles }: Config, name: string): Profile | undefined =>
  Object.hasOwn(profiles, name) ? profiles[name] : undefined;

/** Throws CliError if it does not exist. */
export function requireProfile(config: Config, name: string): Profile {
  const profile = ownProfile(config, name);
  if (profile) return profile;
  const names = Object.keys(config.profiles).join(", ") || "none";
  throw new CliError(
    `Profile ${name} not found. Profiles: ${names}. \`stoker login --profile ${name} --host URL\` creates it.`,
    exitCode.wrongUsage,
  );
}

/**
 * Stores a key and puts its profile into use. Without a name: the profile of these hosts, otherwise the first one, otherwise one named
 * after the server. Returns the name.
 */
export function storeProfile(env: NodeJS.ProcessEnv, given: string | undefined, profile: Profile): string {
  const config = readConfig(env);
  const name = given ?? (env["STOKER_PROFILE"] || nameFor(config, profile.hosts));
  if (!namePattern.test(name))
    throw new CliError(
      `Invalid profile name ${name}. Use up to 64 letters, digits and the characters . _ : -`,
      exitCode.wrongUsage,
    );
  writeConfig(env, { current: name, profiles: { ...config.profiles, [name]: profile } });
  return name;
}

function nameFor(config: Config, hosts: readonly string[]): string {
  const same = Object.entries(config.profiles).find(([, one]) => one.hosts.some((host) => hosts.includes(host)));
  if (same) return same[0];
  return Object.keys(config.profiles).length === 0 ? firstName : (URL.parse(hosts[0] ?? "")?.host ?? firstName);
}

/** Removes a profile. If it was in use, none is. */
export function removeProfile(env: NodeJS.ProcessEnv, name: string): void {
  const { current, profiles } = readConfig(env);
  const left = Object.fromEntries(Object.entries(profiles).filter(([one]) => one !== name));
  writeConfig(env, { current: current === name ? undefined : current, profiles: left });
}
