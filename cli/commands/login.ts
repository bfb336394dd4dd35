// `stoker login`: waits for a key with a random login id that the user approves in a browser.
import { randomBytes } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import { type Api, openApi } from "../api.ts";
import { CliError, exitCode } from "../cli-error.ts";
import { type Command, pathOf } from "../command.ts";
import { chosenProfile, configPath, readConfig, removeProfile, requireProfile, storeProfile } from "../profiles.ts";
import { openTerminal, type Terminal } from "../terminal.ts";

/** The server keeps an approval for this time. */
const loginLimitMs = 600_000;

/** `stoker login` and `stoker auth login` are the same. */
export function addLogin(parent: Command): void {
  parent
    .command("login")
    .example(`${pathOf(parent)} login --host https://stoker.example.com --profile prod`)
    .description("get a key for this machine by signing in with a browser, and store it in a profile")
    .action(async (_flags: object, command: Command) => login(openTerminal(command, undefined, true), command));
}

export function addLogout(parent: Command): void {
  parent
    .command("logout")
    .example(`${pathOf(parent)} logout --profile prod`)
    .description("revoke the key from `stoker login` and delete its profile from this machine")
    .stream((terminal, _flags: object, command: Command) => logout(terminal, command));
}

const profileFlag = (command: Command): string | undefined => command.optsWithGlobals<{ profile?: string }>().profile;

async function login({ connection, progress }: Terminal, command: Command): Promise<void> {
  const { host } = connection;
  const loginId = randomBytes(24).toString("base64url");
  progress(`Open ${host}/login?cli=${loginId}`);
  progress(`and check that the page shows the code ${codeOf(loginId)}. Waiting ...`);
  const key = await awaitKey(openApi(connection, { anonymous: true }), loginId);
  progress(await store(connection, key, profileFlag(command)));
}

/** Checks a key and stores it in a profile, which is then in use. Returns a message. Throws CliError if the server rejects it. */
export async function store(
  { host, others = [] }: Pick<Terminal["connection"], "host" | "others">,
  key: string,
  profile: string | undefined,
): Promise<string> {
  const me = await openApi({ host, others, key: () => key }).call<{ display_name: string }>("GET", "/v1/me");
  const name = storeProfile(process.env, profile, { hosts: [host, ...others], key });
  return `Signed in as ${me.display_name} at ${host}. The key is stored in profile ${name}, now in use (${configPath(process.env)}).`;
}

async function logout({ progress }: Terminal, command: Command): Promise<void> {
  const config = readConfig(process.env);
  const { name } = chosenProfile(config, profileFlag(command), process.env);
  if (name === undefined) {
    const left = Object.keys(config.profiles).join(", ");
    progress(left ? `No profile is in use. Choose one with --profile: ${left}.` : "No key is stored on this machine.");
    return;
  }
  const { hosts, key } = requireProfile(config, name);
  const [host = "", ...others] = hosts;
  const result = await revokeKey(openApi({ host, others, key: () => key }), key);
  removeProfile(process.env, name);
  const left = Object.keys(config.profiles).filter((one) => one !== name);
  progress(`${result} Removed profile ${name}.`);
  if (left.length > 0) progress(`Left: ${left.join(", ")}. Choose one: stoker auth use NAME`);
}

/** The sign-in page shows the same code. */
const codeOf = (loginId: string): string => `${loginId.slice(0, 4)}-${loginId.slice(4, 8)}`.toUpperCase();

async function awaitKey(api: Api, loginId: string): Promise<string> {
  const endMs = performance.now() + loginLimitMs;
  for (;;) {
    try {
      const path = `/github/cli/login?login_id=${loginId}`;
      return (await api.call<{ access_token: string }>("GET", path)).access_token;
    } catch (error) {
      // A used or malformed id is final. Timeouts, cut connections and restarts are retried.
      const isFinal = error instanceof CliError && finals.has(error.exitCode);
      if (isFinal || performance.now() > endMs) throw error;
    }
    await wait(1_000);
  }
}

const finals: ReadonlySet<number> = new Set([exitCode.notFound, exitCode.wrongUsage, exitCode.notAuthenticated]);

/** Revokes the key if `stoker login` created it. Returns a message. */
async function revokeKey(api: Api, key: string): Promise<string> {
  try {
    const { name } = await api.call<{ name: string }>("GET", `/v1/api-tokens/${key}`);
    if (!name.startsWith("cli-")) return `The key ${name} was not created by stoker login and stays valid.`;
    await api.call("DELETE", `/v1/api-tokens/${key}`);
    return `Revoked the key ${name}.`;
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    return error.exitCode === exitCode.notAuthenticated
      ? "The key was already revoked."
      : `Could not revoke the key (${error.message}). Revoke it in the console.`;
  }
}
