import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { CliError, exitCode } from "./cli-error.ts";

/** Folder of the program; the same in the repository and in the package of scripts/pack-cli.ts. */
const root = resolve(import.meta.dirname, "..");

/** Path of another program of the repository. Throws CliError where only the command line is installed. */
export function programFile(path: string): string {
  const file = join(root, path);
  if (existsSync(file)) return file;
  throw new CliError(
    `This command runs ${path}, which the package of the command line does not contain. Run it from a clone of Stoker's repository.`,
    exitCode.wrongUsage,
  );
}
