import type { Command } from "commander";
import { CliError, exitCode } from "../cli-error.ts";
import { inputs } from "../option-values.ts";
import { openTerminal } from "../terminal.ts";

interface Completion {
  readonly choices: readonly { readonly text: string }[];
}

export function addInfer(program: Command): void {
  program
    .command("infer")
    .description("complete a prompt; the text goes to stdout")
    .option("-m, --model <name>", "model to call")
    .option("-d, --deployment <id>", "deployment to call")
    .requiredOption("-i, --input <name=value>", "a field of the request, e.g. -i prompt=Hi -i max_tokens=20", inputs)
    .option("--stream", "print the text as it comes")
    .action(
      async (flags: { model?: string; deployment?: string; input: object; stream?: boolean }, command: Command) => {
        const terminal = openTerminal(command);
        const model = flags.model ?? (flags.deployment === undefined ? undefined : `deploy_id:${flags.deployment}`);
        if (model === undefined)
          throw new CliError("Name a model with -m or a deployment with -d.", exitCode.wrongUsage);
        const body = { ...flags.input, model };
        if (!flags.stream) {
          const answer = await terminal.api.call<Completion>("POST", "/v1/completions", body);
          terminal.show(answer, ({ choices }) => choices.map(({ text }) => text).join("\n"));
          return;
        }
        for await (const event of terminal.api.stream<Completion>("/v1/completions", { ...body, stream: true })) {
          if (terminal.json) terminal.write(`${JSON.stringify(event)}\n`);
          else terminal.write(event.choices[0]?.text ?? "");
        }
        if (!terminal.json) terminal.write("\n");
      },
    );
}
