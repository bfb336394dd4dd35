import { steps, values } from "./cases.ts";
import type { Place } from "./tree.ts";

/** Works in bash 3.2 and later, without the package bash-completion. */
export function bashCompletion(name: string, places: readonly Place[]): string {
  return `# bash completion of ${name}. Load it with: source <(${name} completion bash)
_${name}() {
  local at=${name} cur prev word words="" files="" i skip=""
  cur=\${COMP_WORDS[COMP_CWORD]}
  prev=\${COMP_WORDS[COMP_CWORD-1]}
  # Readline separates --option=value into three words.
  if [ "$cur" = "=" ]; then cur=""; elif [ "$prev" = "=" ]; then prev=\${COMP_WORDS[COMP_CWORD-2]}; fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    if [ -n "$skip" ]; then
      [ "$word" = "=" ] || skip=""
      continue
    fi
    case "$at $word" in
${places.flatMap(steps).join("\n")}
    esac
  done
  if [ -n "$skip" ]; then
    case "$at $prev" in
${places.flatMap((place) => values(place, "files=1", (choices) => `words="${choices}"`)).join("\n")}
    esac
  else
    case "$at" in
${places.map(words).join("\n")}
    esac
  fi
  COMPREPLY=()
  while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -W "$words" -- "$cur")
  if [ -n "$files" ]; then
    compopt -o filenames 2>/dev/null
    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$cur")
  fi
}
complete -F _${name} ${name}
`;
}

function words({ path, commands, options, args }: Place): string {
  const offered = [
    ...commands.map((one) => one.name),
    ...args.flatMap(({ choices }) => choices),
    ...options.map(({ long }) => long),
  ];
  return `      "${path}") words="${offered.join(" ")}"${args.some(({ isFile }) => isFile) ? "; files=1" : ""} ;;`;
}
