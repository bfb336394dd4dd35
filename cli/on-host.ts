// Operator commands that run on the host with the database and the secrets, without a server: entries of the control plane.

import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { CliError, exitCode } from "./cli-error.ts";
import { namedFolders, othersText } from "./data-folders.ts";
import { programFile } from "./own-files.ts";

/** Runs an entry and exits with its exit code. Throws as hostEnvironment does. */
export async function runOnHost(
  entry: "admin-key.ts" | "rotate-kek.ts" | "rotate-invoice-key.ts" | "backup.ts",
  data: string | undefined,
  args: readonly string[] = [],
): Promise<void> {
  const program = programFile(`control-plane/${entry}`);
  const env = hostEnvironment(process.env, data, process.cwd());
  process.stderr.write(
    `Database: ${withoutPassword(env["DATABASE_URL"])}\nSecrets folder: ${env["STOKER_SECRETS_DIR"]}\n`,
  );
  await runNode(program, args, env);
}

/**
 * Database and secrets of one installation. DATABASE_URL and STOKER_SECRETS_DIR, set together, win over a data folder unless
 * `flag` names one. An `up` on another folder than the default ones is not used unless it is named: these commands change an
 * installation. `home`: folder of this program. Throws CliError if they name no installation or parts of two.
 */
export function hostEnvironment(
  env: NodeJS.ProcessEnv,
  flag: string | undefined,
  cwd: string,
  home?: string,
): NodeJS.ProcessEnv {
  const { DATABASE_URL: url, STOKER_SECRETS_DIR: secrets } = env;
  if (url && secrets && flag === undefined) return { ...env, STOKER_SECRETS_DIR: resolve(cwd, secrets) };
  const named = flag ?? env["STOKER_DATA"];
  const candidates = flag === undefined ? namedFolders(env, cwd, home) : [resolve(cwd, flag)];
  const data = candidates.find((folder) => existsSync(join(folder, "secrets")));
  if (!data)
    throw new CliError(
      `No Stoker data folder at ${named ?? ".stoker"}.` +
        (othersText(candidates, env) || " Set --data, or set DATABASE_URL and STOKER_SECRETS_DIR."),
      exitCode.wrongUsage,
    );
  const folder = join(data, "secrets");
  if (secrets && resolve(cwd, secrets) !== folder)
    throw new CliError(
      `STOKER_SECRETS_DIR is ${secrets}, but the data folder is ${data}. ` +
        "Set DATABASE_URL and STOKER_SECRETS_DIR together without --data, or unset STOKER_SECRETS_DIR.",
      exitCode.wrongUsage,
    );
  // With an external database, the folder does not identify the database, so it must be named explicitly.
  const own = ownDatabase(data);
  const isOther = url && (own === undefined ? named === undefined : !isSameDatabase(url, own));
  if (isOther)
    throw new CliError(
      `DATABASE_URL is set, but the secrets would come from the data folder ${data}. ` +
        `Set STOKER_SECRETS_DIR to the secrets folder of that database, or unset DATABASE_URL.`,
      exitCode.wrongUsage,
    );
  const database = url || own;
  if (database === undefined)
    throw new CliError(
      `No database found in ${data}. Start ./scripts/up once as this user, or set DATABASE_URL and STOKER_SECRETS_DIR.`,
      exitCode.wrongUsage,
    );
  const adminKey = env["STOKER_ADMIN_KEY_FILE"] || join(data, "admin.key");
  return { ...env, DATABASE_URL: database, STOKER_SECRETS_DIR: folder, STOKER_ADMIN_KEY_FILE: adminKey };
}

/** URL of the PostgreSQL that `up` runs for this folder. */
function ownDatabase(data: string): string | undefined {
  try {
    const password = readFileSync(join(data, "secrets", "postgres.password"), "utf8").trim();
    const { postgres } = JSON.parse(readFileSync(join(data, "ports.json"), "utf8")) as { postgres?: number };
    if (postgres === undefined) return undefined;
    return `postgres://stoker:${encodeURIComponent(password)}@127.0.0.1:${postgres}/stoker`;
  } catch {
    return undefined;
  }
}

function isSameDatabase(one: string, other: string): boolean {
  const locationOf = (text: string) => {
    const url = URL.parse(text);
    return url && `${url.hostname.replace("localhost", "127.0.0.1")}:${url.port || 5432}${url.pathname}`;
  };
  return locationOf(one) === locationOf(other);
}

function withoutPassword(text = ""): string {
  const url = URL.parse(text);
  if (!url) return "DATABASE_URL";
  return `${url.protocol}//${url.username && `${url.username}@`}${url.host}${url.pathname}`;
}

/** Runs a program on this terminal and exits with its exit code. */
export function runChild(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: "inherit", env });
    // Ctrl-C reaches the child as well; this process only waits for its end.
    process.on("SIGINT", () => {});
    process.on("SIGTERM", () => child.kill("SIGTERM"));
    child.once("error", reject);
    child.once("exit", (code) => {
      process.exitCode = code ?? 1;
      resolve();
    });
  });
}

/** Runs a TypeScript entry under this Node. */
export const runNode = (entry: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<void> =>
  runChild(process.execPath, ["--disable-warning=ExperimentalWarning", entry, ...args], env);
