// Words that a shell can complete, read from the command tree.
import type { Argument, Command, Option } from "commander";

export interface Place {
  /** Words before the cursor without options, such as `stoker deploy`. */
  readonly path: string;
  /** Other words for the same command: aliases. */
  readonly otherPaths: readonly string[];
  readonly commands: readonly { readonly name: string; readonly description: string }[];
  /** Its own and those of the commands above it. */
  readonly options: readonly CompletedOption[];
  readonly args: readonly Value[];
}

export interface CompletedOption {
  readonly long: string;
  /** `-o`. Undefined: none. */
  readonly short: string | undefined;
  readonly description: string;
  /** Undefined: takes no value. */
  readonly value: Value | undefined;
}

interface Value {
  /** Empty: any text. */
  readonly choices: readonly string[];
  readonly isFile: boolean;
}

/** All places of a command tree, hidden ones included: they are followed, but not offered. */
export function placesOf(
  command: Command,
  paths: readonly string[] = [command.name()],
  above: readonly CompletedOption[] = [],
): readonly Place[] {
  const help = command.createHelp();
  const own = help.visibleOptions(command).flatMap(completed);
  const inherited = above.filter(({ long }) => !own.some((one) => one.long === long));
  const options = [...own, ...inherited];
  const [path = "", ...otherPaths] = paths;
  const place: Place = {
    path,
    otherPaths,
    commands: help
      .visibleCommands(command)
      .map((one) => ({ name: one.name(), description: plain(one.summary() || one.description()) })),
    options,
    args: command.registeredArguments.map(completedValue),
  };
  const below = command.commands.flatMap((one) =>
    placesOf(
      one,
      [one.name(), ...one.aliases()].flatMap((name) => paths.map((at) => `${at} ${name}`)),
      options.filter(({ long }) => long !== "--help" && long !== "--version"),
    ),
  );
  return [place, ...below];
}

function completed(option: Option): readonly CompletedOption[] {
  if (option.long === undefined) return [];
  const takesValue = option.required || option.optional;
  const value = takesValue ? { choices: option.argChoices ?? [], isFile: isFile(option.flags) } : undefined;
  return [{ long: option.long, short: option.short, description: plain(option.description), value }];
}

const completedValue = (argument: Argument): Value => ({
  choices: argument.argChoices ?? [],
  isFile: isFile(argument.name()),
});

/** By the name of the value. */
const isFile = (text: string): boolean => /(^|[<[|])(file|path|folder|recordings)\b/.test(text);

/** One line without quotes and other characters that a shell reads. */
const plain = (text: string): string => text.replaceAll(/[`'"\\$]/g, "").replaceAll(/\s+/g, " ");
