// `stoker`: an HTTP client. Commands are in program.ts, exit codes in cli-error.ts.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { InvalidArgumentError } from "commander";
import { CliError, exitCode } from "./cli-error.ts";
import { printable } from "./printable.ts";
import { createProgram } from "./program.ts";

const manifest = readFileSync(join(import.meta.dirname, "../package.json"), "utf8");
const { version } = JSON.parse(manifest) as { version: string };

// A reader that closes the pipe (`| head`) is not a failure.
process.stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : 1));

try {
  await createProgram(version).parseAsync();
} catch (error) {
  // Arguments that an action parses fail like those that commander parses.
  const isUsage = error instanceof InvalidArgumentError;
  if (!isUsage && !(error instanceof CliError)) throw error;
  const requestId = isUsage || error.requestId === undefined ? "" : ` (request id ${error.requestId})`;
  process.stderr.write(printable(`error: ${error.message}${requestId}\n`));
  process.exitCode = isUsage ? exitCode.wrongUsage : error.exitCode;
}
