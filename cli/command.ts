import { Command as Base } from "commander";
import { confirm } from "./confirm.ts";
import { type OutputFormat, outputOption } from "./output-format.ts";
import { openTerminal, type Terminal } from "./terminal.ts";

type Action<Args extends readonly unknown[]> = (terminal: Terminal, ...args: Args) => void | Promise<void>;

export class Command extends Base {
  readonly examples: string[] = [];

  override createCommand(name?: string): Command {
    return new Command(name);
  }

  /** Adds an example to the end of the help. A test parses all of them. */
  example(line: string): this {
    if (this.examples.length === 0)
      this.addHelpText("after", () =>
        [`\nExample${this.examples.length === 1 ? "" : "s"}:`, ...this.examples.map((one) => `  ${one}`)].join("\n"),
      );
    this.examples.push(line);
    return this;
  }

  /**
   * Adds --yes and, without it, asks `question` before the action. For what cannot be undone. `question` gets the terminal, the
   * arguments and the flags. `isNeeded`: by the flags.
   */
  confirm<Args extends readonly unknown[]>(
    question: (terminal: Terminal, ...args: Args) => string | Promise<string>,
    isNeeded: (flags: Readonly<Record<string, unknown>>) => boolean = () => true,
  ): this {
    return this.option("-y, --yes", "do not ask for confirmation").hook("preAction", async () => {
      const flags = this.opts();
      if (flags["yes"] || !isNeeded(flags)) return;
      const args = [...this.processedArgs, flags] as unknown as Args;
      await confirm(pathOf(this), () => question(openTerminal(this), ...args));
    });
  }

  /**
   * Sets the action, which prints records: it gets the terminal, the arguments in their order, and the flags. Adds --output, unless
   * the command has an option of that name (the price of output tokens).
   */
  run<Args extends readonly unknown[]>(action: Action<Args>): this {
    if (this.options.some(({ long }) => long === "--output")) return this.stream(action);
    return this.addOption(outputOption()).#act(action, () => this.opts<{ output?: OutputFormat }>().output);
  }

  /** Sets an action that prints something other than records: text, files, events. */
  stream<Args extends readonly unknown[]>(action: Action<Args>): this {
    return this.#act(action, () => undefined);
  }

  #act<Args extends readonly unknown[]>(action: Action<Args>, output: () => OutputFormat | undefined): this {
    return this.action((...given: readonly unknown[]) =>
      action(openTerminal(this, output()), ...(given as unknown as Args)),
    );
  }
}

/** `stoker admin`. Several files add commands to it. */
export const adminGroup = (program: Command): Command =>
  groupOf(program, "admin", "operator commands: accounts, deployments, money, limits, events, audit log");

/** `stoker deploy`. Several files add commands to it. */
export const deployGroup = (program: Command): Command =>
  groupOf(program, "deploy", "deploy a model by its name; manage deployments");

/** `stoker node`. Several files add commands to it. */
export const nodeGroup = (program: Command): Command =>
  groupOf(program, "node", "GPU hosts: join, inspect, cordon, drain");

const groupOf = (program: Command, name: string, description: string): Command => {
  const found = program.commands.find((command) => command.name() === name);
  return (found as Command | undefined) ?? program.command(name).description(description);
};

/** `stoker deploy delete` */
export function pathOf(command: Base): string {
  return command.parent ? `${pathOf(command.parent)} ${command.name()}` : command.name();
}
