// `stoker login`: waits for a key with a random login id that the user approves in a browser.
import { randomBytes } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import { type Api, openApi } from "../api.ts";
import { CliError, exitCode } from "../cli-error.ts";
import type { Command } from "../command.ts";
import { hostsIn, profilePath, readProfile, removeProfile, writeProfile } from "../connection.ts";

/** The server keeps an approval for this time. */
const loginLimitMs = 600_000;

export function addLogin(program: Command): void {
  program
    .command("login")
    .description("get a key for this machine by signing in with a browser")
    .stream(async ({ connection, progress }) => {
      const { host, others = [] } = connection;
      const loginId = randomBytes(24).toString("base64url");
      progress(`Open ${host}/login?cli=${loginId}`);
      progress(`and check that the page shows the code ${codeOf(loginId)}. Waiting ...`);
      const key = await awaitKey(openApi(connection, { anonymous: true }), loginId);
      const me = await openApi({ ...connection, key: () => key }).call<{ display_name: string }>("GET", "/v1/me");
      const path = profilePath(process.env);
      writeProfile(path, [host, ...others].join(","), key);
      progress(`Signed in as ${me.display_name} at ${host}. The API key is stored in ${path}.`);
    });

  program
    .command("logout")
    .description("revoke the key from `stoker login` and delete it from this machine")
    .stream(async ({ progress }) => {
      const path = profilePath(process.env);
      const { STOKER_HOST: stored = "", STOKER_API_KEY: key } = readProfile(path);
      const [host, ...others] = hostsIn(stored);
      if (host === undefined || key === undefined) {
        progress("No key is stored on this machine.");
        return;
      }
      const result = await revokeKey(openApi({ host, others, key: () => key }), key);
      removeProfile(path);
      progress(`${result} Removed ${path}.`);
    });
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
