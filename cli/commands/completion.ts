import { Argument } from "commander";
import type { Command } from "../command.ts";
import { bashCompletion } from "../completion/bash.ts";
import { fishCompletion } from "../completion/fish.ts";
import { placesOf } from "../completion/tree.ts";
import { zshCompletion } from "../completion/zsh.ts";

const scripts = { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion };

export function addCompletion(program: Command): void {
  program
    .command("completion")
    .description("print a script that completes commands and options in a shell")
    .example("source <(stoker completion bash)")
    .addArgument(new Argument("<shell>", "your shell").choices(Object.keys(scripts)))
    .action((shell: keyof typeof scripts) => {
      process.stdout.write(scripts[shell](program.name(), placesOf(program)));
    });
}
