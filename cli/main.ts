// `stoker`: talks HTTP only. The commands stand in program.ts; exit codes in cli-error.ts.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { InvalidArgumentError } from "commander";
import { CliError, exitCode } from "./cli-error.ts";
import { createProgram } from "./program.ts";

const manifest = readFileSync(join(import.meta.dirname, "../package.json"), "utf8");
const { version } = JSON.parse(manifest) as { version: string };

// A reader that has seen enough (`| head`) is no failure.
process.stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : 1));

try {
  await createProgram(version).parseAsync();
} catch (error) {
  // An argument that an action reads by itself is refused as one that the parser reads.
  const isUsage = error instanceof InvalidArgumentError;
  if (!isUsage && !(error instanceof CliError)) throw error;
  const requestId = isUsage || error.requestId === undefined ? "" : ` (request id ${error.requestId})`;
  process.stderr.write(`error: ${error.message}${requestId}\n`);
  process.exitCode = isUsage ? exitCode.wrongUsage : error.exitCode;
}
