// `stoker`: an HTTP client. Commands are in program.ts, exit codes in cli-error.ts.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { InvalidArgumentError } from "commander";
import { CliError, errorRecord, exitCode } from "./cli-error.ts";
import { hasStructuredOutput } from "./output-format.ts";
import { printable } from "./printable.ts";
import { createProgram, reportUsageErrorsBy } from "./program.ts";

const manifest = readFileSync(join(import.meta.dirname, "../package.json"), "utf8");
const { version } = JSON.parse(manifest) as { version: string };

// A reader that closes the pipe (`| head`) is not a failure.
process.stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : 1));

const isStructured = hasStructuredOutput(process.argv.slice(2));
const program = createProgram(version);
if (isStructured) reportUsageErrorsBy(program, exitWith);
try {
  await program.parseAsync();
} catch (error) {
  // Arguments that an action parses fail like those that commander parses.
  const isUsage = error instanceof InvalidArgumentError;
  if (!isUsage && !(error instanceof CliError)) throw error;
  exitWith(isUsage ? new CliError(error.message, exitCode.wrongUsage) : error);
}

function exitWith(error: CliError): void {
  const requestId = error.requestId === undefined ? "" : ` (request id ${error.requestId})`;
  const text = isStructured ? JSON.stringify(errorRecord(error)) : `error: ${error.message}${requestId}`;
  process.stderr.write(printable(`${text}\n`));
  process.exitCode = error.exitCode;
}
