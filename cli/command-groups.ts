import type { Command } from "commander";

/** `stoker admin`. Several files add commands to it. */
export const adminGroup = (program: Command): Command =>
  groupOf(program, "admin", "operator commands: accounts, money, limits, audit log");

/** `stoker node`. Several files add commands to it. */
export const nodeGroup = (program: Command): Command =>
  groupOf(program, "node", "GPU hosts: join, inspect, cordon, drain");

const groupOf = (program: Command, name: string, description: string): Command =>
  program.commands.find((command) => command.name() === name) ?? program.command(name).description(description);
