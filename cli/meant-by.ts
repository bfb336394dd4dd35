import { CliError, exitCode } from "./cli-error.ts";

export interface Choice {
  /** Id in the API. */
  readonly key: string;
  /** Other names for it. */
  readonly names: readonly string[];
}

/**
 * Key of the choice whose key or name equals `given`, otherwise of the only one that starts with it. Returns `given` if nothing
 * matches, so that the server reports it. Throws CliError if it is ambiguous.
 */
export function meantBy(given: string, choices: readonly Choice[]): string {
  return find(given, choices, (word, text) => word.startsWith(text));
}

/** Accepts only a full key or name: for actions that cannot be undone. */
export function calledInFull(given: string, choices: readonly Choice[]): string {
  return find(given, choices, () => false);
}

function find(given: string, choices: readonly Choice[], isMatch: (word: string, text: string) => boolean): string {
  const text = given.trim().toLowerCase();
  if (text === "") throw new CliError("The name must not be empty.", exitCode.wrongUsage);
  if (choices.some(({ key }) => key === given)) return given;
  const matching = (fits: (word: string) => boolean) =>
    choices.filter(({ key, names }) => [key, ...names].some((word) => fits(word.toLowerCase())));
  const inFull = matching((word) => word === text);
  const meant = inFull.length > 0 ? inFull : matching((word) => isMatch(word, text));
  if (meant.length > 1)
    throw new CliError(
      `${given} is ambiguous: ${meant.map(labelOf).join(", ")}. Give the full name or id.`,
      exitCode.wrongUsage,
    );
  return meant[0]?.key ?? given;
}

const labelOf = ({ key, names: [name] }: Choice): string =>
  name === undefined || key.includes(name) ? key : `${name} (${key})`;
