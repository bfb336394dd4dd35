import { spawn } from "node:child_process";
import { resolve } from "node:path";
import type { Command } from "commander";

/** Hands everything to scripts/up, which knows its own flags. */
export function addUp(program: Command): void {
  program
    .command("up")
    .description("start Stoker on this machine (flags: stoker up --help)")
    .helpOption(false)
    .allowUnknownOption()
    .allowExcessArguments()
    .argument("[flags...]")
    .action(
      (flags: string[]) =>
        new Promise<void>((done, fail) => {
          const child = spawn(resolve(import.meta.dirname, "../../scripts/up"), flags, { stdio: "inherit" });
          // Ctrl-C reaches the child as well; this process only waits for its end.
          process.on("SIGINT", () => {});
          process.on("SIGTERM", () => child.kill("SIGTERM"));
          child.once("error", fail);
          child.once("exit", (code) => {
            process.exitCode = code ?? 1;
            done();
          });
        }),
    );
}
