// Confirmation of commands that cannot be undone.
import { createInterface } from "node:readline/promises";
import { CliError, exitCode } from "./cli-error.ts";
import { printable } from "./printable.ts";

/**
 * Asks on the terminal and returns if the answer is yes. `question` is called only if someone can answer it. Throws CliError if the
 * answer is no, or if there is no terminal.
 */
export async function confirm(command: string, question: () => string | Promise<string>): Promise<void> {
  const { stdin: input, stderr: output } = process;
  if (!input.isTTY || !output.isTTY)
    throw new CliError(
      `\`${command}\` asks for confirmation, but there is no terminal to ask on. Add --yes to confirm.`,
      exitCode.wrongUsage,
    );
  const text = printable(`${await question()} [y/N] `);
  const prompt = createInterface({ input, output });
  // Ctrl-C and Ctrl-D close the prompt without an answer.
  const closed = new Promise<string>((resolve) => prompt.once("close", () => resolve("")));
  const answer = await Promise.race([prompt.question(text), closed]);
  prompt.close();
  if (!/^y(es)?$/i.test(answer.trim())) throw new CliError("Cancelled. Nothing was changed.", exitCode.failed);
}
