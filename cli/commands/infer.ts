import type { Command } from "commander";
import { CliError, exitCode } from "../cli-error.ts";
import { collect, inputs } from "../option-values.ts";
import { readable, saveOutputs } from "../outputs.ts";
import { openTerminal, type Terminal } from "../terminal.ts";

interface Completion {
  readonly choices: readonly { readonly text: string }[];
}

/** Of native inference. */
interface TokenEvent {
  readonly token?: { readonly text: string };
  readonly error_message?: string;
}

interface Flags {
  readonly model?: string;
  readonly deployment?: string;
  readonly input: Readonly<Record<string, unknown>>;
  readonly output?: readonly string[];
  readonly stream?: boolean;
  readonly webhook?: string;
}

export function addInfer(program: Command): void {
  program
    .command("infer")
    .description("ask a model in the fields of its task; text goes to stdout")
    .option("-m, --model <name>", "model to call")
    .option("-d, --deployment <id>", "deployment to call")
    .requiredOption("-i, --input <name=value>", "a field, e.g. -i input=Hi -i audio=@said.wav (@- is stdin)", inputs)
    .option("-o, --output <name=path>", "save a field, e.g. -o audio=a.wav -o images=dir/{IDX}.{EXT}", collect)
    .option("--stream", "print the text as it comes")
    .option("--webhook <url>", "answer at once, and call this address when it is done")
    .action(async (flags: Flags, command: Command) => {
      const terminal = openTerminal(command);
      const model = flags.model ?? (flags.deployment === undefined ? undefined : `deploy_id:${flags.deployment}`);
      if (model === undefined) throw new CliError("Name a model with -m or a deployment with -d.", exitCode.wrongUsage);
      if (flags.webhook !== undefined) await queue(terminal, pathOf(flags), flags);
      else if (await isCompletion(terminal, model, flags.input))
        await complete(terminal, { ...flags.input, model }, flags);
      else await infer(terminal, pathOf(flags), flags);
    });
}

const pathOf = ({ model = "", deployment }: Flags): string =>
  deployment === undefined
    ? `/v1/inference/${model.split("/").map(encodeURIComponent).join("/")}`
    : `/v1/inference/deploy/${encodeURIComponent(deployment)}`;

/** A `prompt` is of completions, unless the model paints. */
async function isCompletion({ api }: Terminal, model: string, input: Flags["input"]): Promise<boolean> {
  if (!("prompt" in input)) return false;
  try {
    const { type } = await api.call<{ type?: string }>("GET", `/models/${encodeURIComponent(model)}`);
    return type !== "text-to-image";
  } catch {
    // Whatever is wrong, the request itself will say.
    return true;
  }
}

async function complete(terminal: Terminal, body: object, { stream }: Flags): Promise<void> {
  if (!stream) {
    const answer = await terminal.api.call<Completion>("POST", "/v1/completions", body);
    terminal.show(answer, ({ choices }) => choices.map(({ text }) => text).join("\n"));
    return;
  }
  await print(
    terminal,
    terminal.api.stream<Completion>("/v1/completions", { ...body, stream: true }),
    ({ choices }) => choices[0]?.text,
  );
}

/** Native inference alone has webhooks. */
async function queue(terminal: Terminal, path: string, { input, webhook, stream, output }: Flags): Promise<void> {
  if (stream || output !== undefined)
    throw new CliError("With --webhook the answer goes there: leave out --stream and -o.", exitCode.wrongUsage);
  const answer = await terminal.api.call<{ readonly request_id: string }>("POST", path, { ...input, webhook });
  terminal.show(answer, ({ request_id: id }) => id);
  terminal.progress("It is queued. `stoker webhook list` shows the call that answers it.");
}

async function infer(terminal: Terminal, path: string, { input, output, stream }: Flags): Promise<void> {
  if (stream) {
    const events = terminal.api.stream<TokenEvent>(path, { ...input, stream: true });
    return await print(terminal, events, ({ token, error_message: error }) => {
      if (error !== undefined) throw new CliError(error, exitCode.failed);
      return token?.text;
    });
  }
  const answer = await terminal.api.call<Record<string, unknown>>("POST", path, input);
  for (const file of saveOutputs(answer, output ?? [])) terminal.progress(`wrote ${file}`);
  terminal.show(answer, readable);
}

async function print<Event>(
  terminal: Terminal,
  events: AsyncGenerator<Event>,
  textOf: (event: Event) => string | undefined,
): Promise<void> {
  for await (const event of events) {
    const text = textOf(event);
    terminal.write(terminal.json ? `${JSON.stringify(event)}\n` : (text ?? ""));
  }
  if (!terminal.json) terminal.write("\n");
}
