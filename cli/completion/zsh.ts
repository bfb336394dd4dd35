import { steps, values } from "./cases.ts";
import type { Place } from "./tree.ts";

/** Works when sourced, and as a file `_stoker` in a folder of fpath. */
export function zshCompletion(name: string, places: readonly Place[]): string {
  return `#compdef ${name}
# zsh completion of ${name}. Load it with: source <(${name} completion zsh)
_${name}() {
  local at=${name} word skip="" prev="" i
  local -a offered flags
  for ((i = 2; i < CURRENT; i++)); do
    word=\${words[i]}
    prev=$word
    if [[ -n $skip ]]; then skip=""; continue; fi
    case "$at $word" in
${places.flatMap(steps).join("\n")}
    esac
  done
  # --option=value
  if [[ -z $skip && \${words[CURRENT]} == --*=* ]]; then
    prev=\${words[CURRENT]%%=*}
    skip=1
    compset -P '*='
  fi
  if [[ -n $skip ]]; then
    case "$at $prev" in
${places.flatMap((place) => values(place, "_files", (choices) => `compadd -- ${choices}`)).join("\n")}
    esac
    return
  fi
  case "$at" in
${places.map(words).join("\n")}
  esac
  (( $#offered )) && _describe -t commands command offered
  _describe -o -t options option flags
}
if [[ $funcstack[1] == _${name} ]]; then _${name} "$@"; else compdef _${name} ${name}; fi
`;
}

function words({ path, commands, options, args }: Place): string {
  const offered = [
    ...commands.map(({ name, description }) => described(name, description)),
    ...args.flatMap(({ choices }) => choices.map((one) => `'${one}'`)),
  ];
  const flags = options.map(({ long, description }) => described(long, description));
  const files = args.some(({ isFile }) => isFile) ? "; _files" : "";
  return `    "${path}") offered=(${offered.join(" ")}); flags=(${flags.join(" ")})${files} ;;`;
}

const described = (word: string, description: string): string => `'${word}:${description.replaceAll(":", "\\:")}'`;
