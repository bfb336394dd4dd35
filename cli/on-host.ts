// What an operator does on the host, by the database and the secrets, without a server: an entry of the control plane, run as
// a process of its own.
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { CliError, exitCode } from "./cli-error.ts";

/** Ends with the entry's own exit code. Throws as hostEnvironment does. */
export async function runOnHost(
  entry: "admin-key.ts" | "rotate-kek.ts",
  data: string | undefined,
  args: readonly string[] = [],
): Promise<void> {
  const env = hostEnvironment(process.env, data, process.cwd());
  const file = resolve(import.meta.dirname, "../control-plane", entry);
  const child = spawn(process.execPath, ["--disable-warning=ExperimentalWarning", file, ...args], {
    stdio: "inherit",
    env,
  });
  process.exitCode = await new Promise<number>((done, fail) => {
    child.once("error", fail);
    child.once("exit", (code) => done(code ?? 1));
  });
}

/** Throws CliError where neither the environment nor a data folder says which database it is. */
export function hostEnvironment(env: NodeJS.ProcessEnv, flag: string | undefined, cwd: string): NodeJS.ProcessEnv {
  const candidates = [flag ?? env["STOKER_DATA"] ?? [".stoker", resolve(import.meta.dirname, "../.stoker")]].flat();
  const data = candidates.map((folder) => resolve(cwd, folder)).find((folder) => existsSync(join(folder, "secrets")));
  if (!data && !(env["DATABASE_URL"] && env["STOKER_SECRETS_DIR"])) {
    throw new CliError(
      `There is no data folder of Stoker at ${candidates[0]}; name it with --data, or set DATABASE_URL and STOKER_SECRETS_DIR.`,
      exitCode.wrongUsage,
    );
  }
  const places = data
    ? { STOKER_SECRETS_DIR: join(data, "secrets"), STOKER_ADMIN_KEY_FILE: join(data, "admin.key") }
    : {};
  return { ...env, DATABASE_URL: env["DATABASE_URL"] || ownDatabase(data ?? ""), ...places };
}

/** The PostgreSQL that `up` runs for this folder. */
function ownDatabase(data: string): string {
  try {
    const password = readFileSync(join(data, "secrets", "postgres.password"), "utf8").trim();
    const { postgres } = JSON.parse(readFileSync(join(data, "ports.json"), "utf8")) as { postgres: number };
    return `postgres://stoker:${encodeURIComponent(password)}@127.0.0.1:${postgres}/stoker`;
  } catch (cause) {
    throw new CliError(
      `${data} names no database: Stoker was never started on it as this user, or it uses another database. ` +
        "Start ./scripts/up once, or set DATABASE_URL.",
      exitCode.wrongUsage,
      { cause },
    );
  }
}
