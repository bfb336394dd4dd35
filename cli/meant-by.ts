import { CliError, exitCode } from "./cli-error.ts";

export interface Choice {
  /** What the API is asked by. */
  readonly key: string;
  /** What else a person calls it. */
  readonly names: readonly string[];
}

/**
 * The key of what is called so in full, else of the only one that something of begins so. Where nothing does, what was given:
 * the server refuses it in its own words. Throws CliError where several are meant, naming them.
 */
export function meantBy(given: string, choices: readonly Choice[]): string {
  return find(given, choices, (word, text) => word.startsWith(text));
}

/** Only what is called so in full: for what cannot be undone, where a slip of the finger must not hit the only one alike. */
export function calledInFull(given: string, choices: readonly Choice[]): string {
  return find(given, choices, () => false);
}

function find(given: string, choices: readonly Choice[], isAlike: (word: string, text: string) => boolean): string {
  const text = given.trim().toLowerCase();
  if (text === "") throw new CliError("Give a name; an empty one could be any.", exitCode.wrongUsage);
  if (choices.some(({ key }) => key === given)) return given;
  const found = (fits: (word: string) => boolean) =>
    choices.filter(({ key, names }) => [key, ...names].some((word) => fits(word.toLowerCase())));
  const inFull = found((word) => word === text);
  const meant = inFull.length > 0 ? inFull : found((word) => isAlike(word, text));
  if (meant.length > 1)
    throw new CliError(`${given} could be ${meant.map(told).join(", ")}: give more of it.`, exitCode.wrongUsage);
  return meant[0]?.key ?? given;
}

const told = ({ key, names: [name] }: Choice): string =>
  name === undefined || key.includes(name) ? key : `${name} (${key})`;
