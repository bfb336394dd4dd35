import { completedValues, takersOf } from "./cases.ts";
import type { Place } from "./tree.ts";

/** One function that prints the candidates: a condition for each command would be evaluated at every key. */
export function fishCompletion(name: string, places: readonly Place[]): string {
  return `# fish completion of ${name}. Load it with: ${name} completion fish | source
function __${name}_complete
    set -l at ${name}
    set -l skip
    set -l prev
    set -l prefix
    set -l cur (commandline -ct)
    for word in (commandline -opc)[2..-1]
        set prev $word
        if test -n "$skip"
            set skip
            continue
        end
        switch "$at $word"
${places.flatMap(steps).join("\n")}
        end
    end
    # --option=value
    if test -z "$skip"; and string match -q -- '--*=*' "$cur"
        set -l parts (string split -m 1 = -- $cur)
        set prev $parts[1]
        set cur $parts[2]
        set prefix "$prev="
        set skip 1
    end
    if test -n "$skip"
        switch "$at $prev"
${places.flatMap(values).join("\n")}
        end
        return
    end
    switch "$at"
${places.map(words).join("\n")}
    end
end
complete -c ${name} -f -a '(__${name}_complete)'
`;
}

/** Follows commands and skips the values of options. */
function steps(place: Place): readonly string[] {
  const { path, otherPaths } = place;
  const takers = takersOf(place);
  return [
    ...(path.includes(" ")
      ? [`            case ${quoted([path, ...otherPaths])}`, `                set at "${path}"`]
      : []),
    ...(takers.length > 0 ? [`            case ${quoted(takers)}`, "                set skip 1"] : []),
  ];
}

const values = (place: Place): readonly string[] =>
  completedValues(place).flatMap(({ patterns, choices, isFile }) => [
    `            case ${quoted(patterns)}`,
    isFile
      ? `                printf '%s\\n' "$prefix"(__fish_complete_path "$cur")`
      : `                printf '%s\\n' "$prefix"${choices.length === 1 ? choices[0] : `{${choices.join(",")}}`}`,
  ]);

function words({ path, commands, options, args }: Place): string {
  const lines = [
    ...commands.map(({ name, description }) => `'${name}\t${description}'`),
    ...args.flatMap(({ choices }) => choices.map((one) => `'${one}'`)),
    ...options.map(({ long, description }) => `'${long}\t${description}'`),
  ];
  return [
    `        case "${path}"`,
    `            printf '%s\\n' ${lines.join(" ")}`,
    ...(args.some(({ isFile }) => isFile) ? [`            __fish_complete_path "$cur"`] : []),
  ].join("\n");
}

const quoted = (patterns: readonly string[]): string => patterns.map((one) => `"${one}"`).join(" ");
