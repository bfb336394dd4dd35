import { resolve } from "node:path";
import type { Command } from "../command.ts";
import { runChild } from "../on-host.ts";

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
    .action((flags: string[]) => runChild(resolve(import.meta.dirname, "../../scripts/up"), flags));
}
