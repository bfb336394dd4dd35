import { Command as Base } from "commander";
import { openTerminal, type Terminal } from "./terminal.ts";

export class Command extends Base {
  override createCommand(name?: string): Command {
    return new Command(name);
  }

  /** Sets the action: it gets the terminal, the arguments in their order, and the flags. */
  run<Args extends readonly unknown[]>(action: (terminal: Terminal, ...args: Args) => void | Promise<void>): this {
    return this.action((...given: readonly unknown[]) => action(openTerminal(this), ...(given as unknown as Args)));
  }
}

/** `stoker admin`. Several files add commands to it. */
export const adminGroup = (program: Command): Command =>
  groupOf(program, "admin", "operator commands: accounts, deployments, money, limits, events, audit log");

/** `stoker deploy`. Several files add commands to it. */
export const deployGroup = (program: Command): Command => groupOf(program, "deploy", "dedicated deployments");

/** `stoker node`. Several files add commands to it. */
export const nodeGroup = (program: Command): Command =>
  groupOf(program, "node", "GPU hosts: join, inspect, cordon, drain");

const groupOf = (program: Command, name: string, description: string): Command => {
  const found = program.commands.find((command) => command.name() === name);
  return (found as Command | undefined) ?? program.command(name).description(description);
};
