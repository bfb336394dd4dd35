import type { Command } from "commander";

/** `stoker node`, to which several files add their commands. */
export function nodeGroup(program: Command): Command {
  return (
    program.commands.find((command) => command.name() === "node") ??
    program.command("node").description("GPU hosts: join, look at them, take them out")
  );
}
