import { readFileSync } from "node:fs";
import { join } from "node:path";
import { CommanderError, InvalidArgumentError } from "commander";
import { CliError, errorRecord, exitCode } from "./cli-error.ts";
import { hasStructuredOutput } from "./output-format.ts";
import { printable } from "./printable.ts";
import { createProgram, throwUsageErrors } from "./program.ts";
import { widthOf, wrap } from "./wrap.ts";

const manifest = readFileSync(join(import.meta.dirname, "../package.json"), "utf8");
const { version } = JSON.parse(manifest) as { version: string };

/** Runs a command line and sets the exit code of the process. */
export async function run(args: readonly string[]): Promise<void> {
  const isStructured = hasStructuredOutput(args);
  const program = createProgram(version);
  if (isStructured) throwUsageErrors(program);
  try {
    await program.parseAsync(args, { from: "user" });
  } catch (error) {
    // The parser has printed help or a usage error.
    if (error instanceof CommanderError && !(error instanceof InvalidArgumentError))
      process.exitCode = error.exitCode === 0 ? exitCode.done : exitCode.wrongUsage;
    // Arguments that an action parses fail like those that commander parses.
    else if (error instanceof InvalidArgumentError)
      report(new CliError(error.message, exitCode.wrongUsage), isStructured);
    else if (error instanceof CliError) report(error, isStructured);
    else throw error;
  }
}

function report(error: CliError, isStructured: boolean): void {
  const requestId = error.requestId === undefined ? "" : ` (request id ${error.requestId})`;
  const help = error.help === undefined ? "" : `\nMore: ${error.help}`;
  const text = isStructured
    ? JSON.stringify(errorRecord(error))
    : wrap(`error: ${error.message}${requestId}${help}`, widthOf(process.stderr));
  process.stderr.write(printable(`${text}\n`));
  process.exitCode = error.exitCode;
}
