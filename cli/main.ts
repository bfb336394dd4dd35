// `stoker`: an HTTP client. Commands are in program.ts, exit codes in cli-error.ts.
import { run } from "./run.ts";

// A reader that closes the pipe (`| head`) is not a failure.
process.stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : 1));

await run(process.argv.slice(2));
