import type { Command } from "commander";

/** `stoker admin`, to which several files add their commands. */
export function adminGroup(program: Command): Command {
  return (
    program.commands.find((command) => command.name() === "admin") ??
    program.command("admin").description("for the operator: accounts, money, limits, the audit log")
  );
}
