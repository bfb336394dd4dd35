import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Command } from "commander";
import { adminGroup } from "../admin-group.ts";
import { CliError, exitCode } from "../cli-error.ts";

/** Replaces a lost key of the operator's account: on the host, by the database and the secrets, without a server. */
export function addAdminKey(program: Command): void {
  adminGroup(program)
    .command("key")
    .description("on the host: make the operator's account a new key, when its own was lost")
    .option("--data <folder>", "the data folder of `up` (default: STOKER_DATA, or .stoker)")
    .option("--revoke-others", "end every other key of that account, as when one was stolen")
    .action(async (flags: { data?: string; revokeOthers?: boolean }) => {
      const entry = resolve(import.meta.dirname, "../../control-plane/admin-key.ts");
      const env = keyEnvironment(process.env, flags.data, process.cwd());
      const args = ["--disable-warning=ExperimentalWarning", entry, ...(flags.revokeOthers ? ["--revoke-others"] : [])];
      const child = spawn(process.execPath, args, { stdio: "inherit", env });
      process.exitCode = await new Promise<number>((done, fail) => {
        child.once("error", fail);
        child.once("exit", (code) => done(code ?? 1));
      });
    });
}

/** Throws CliError where neither the environment nor a data folder says which database it is. */
export function keyEnvironment(env: NodeJS.ProcessEnv, flag: string | undefined, cwd: string): NodeJS.ProcessEnv {
  const candidates = [flag ?? env["STOKER_DATA"] ?? [".stoker", resolve(import.meta.dirname, "../../.stoker")]].flat();
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
