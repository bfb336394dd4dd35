// `case` arms that bash and zsh share.
import type { CompletedOption, Place } from "./tree.ts";

const names = ({ long, short }: CompletedOption): readonly string[] => (short ? [long, short] : [long]);

/** Patterns of options with a value, by place: the word after them is their value. */
export const takersOf = ({ path, options }: Place): readonly string[] =>
  options.flatMap((one) => (one.value ? names(one).map((name) => `${path} ${name}`) : []));

/** Options whose value can be completed, with the patterns that name them. */
export const completedValues = ({ path, options }: Place) =>
  options.flatMap((one) => {
    const { value } = one;
    if (!value || (value.choices.length === 0 && !value.isFile)) return [];
    return [{ patterns: names(one).map((name) => `${path} ${name}`), ...value }];
  });

/** Arms for `"$at $word"`: follow commands, skip the values of options. */
export function steps(place: Place): readonly string[] {
  const { path, otherPaths } = place;
  const takers = takersOf(place);
  return [
    ...(path.includes(" ") ? [`      ${quoted([path, ...otherPaths])}) at="${path}" ;;`] : []),
    ...(takers.length > 0 ? [`      ${quoted(takers)}) skip=1 ;;`] : []),
  ];
}

/** Arms for `"$at $prev"`: complete the value of an option. */
export const values = (place: Place, files: string, choices: (words: string) => string): readonly string[] =>
  completedValues(place).map(
    (one) => `      ${quoted(one.patterns)}) ${one.isFile ? files : choices(one.choices.join(" "))} ;;`,
  );

const quoted = (patterns: readonly string[]): string => patterns.map((one) => `"${one}"`).join(" | ");
