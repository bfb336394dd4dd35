import type { Command } from "../command.ts";
import { runChild } from "../on-host.ts";
import { programFile } from "../own-files.ts";

/** Passes all arguments to scripts/up. */
export function addUp(program: Command): void {
  program
    .command("up")
    .example("stoker up --data ~/stoker --port 8080")
    .description("start Stoker on this machine (flags: stoker up --help)")
    .helpOption(false)
    .allowUnknownOption()
    .allowExcessArguments()
    .argument("[flags...]")
    .action((flags: string[]) => runChild(programFile("scripts/up"), flags));
}
