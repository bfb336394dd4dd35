import type { Responses } from "../../proto/gen/responses.ts";
import { CliError, exitCode } from "../cli-error.ts";
import type { Command } from "../command.ts";
import { writeLocalFile } from "../local-file.ts";
import { collect, inputs } from "../option-values.ts";
import type { Terminal } from "../terminal.ts";

type Completion = Responses["POST /v1/completions"];

/** Event of native inference. */
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
    .description("run inference with the input fields of a model's task; text goes to stdout")
    .example('stoker infer -m org/model -i "input=The capital of France is" --stream')
    .option("-m, --model <name>", "model to call")
    .option("-d, --deployment <id>", "deployment to call")
    .requiredOption(
      "-i, --input <name=value>",
      "input field, such as -i input=Hi -i audio=@speech.wav (@- is stdin)",
      inputs,
    )
    .option(
      "-o, --output <name=path>",
      "save an output field, such as -o audio=a.wav -o images=dir/{IDX}.{EXT}",
      collect,
    )
    .option("--stream", "stream the text")
    .option("--webhook <url>", "return immediately and send the result to this URL")
    .stream(async (terminal, flags: Flags) => {
      const model = flags.model ?? (flags.deployment === undefined ? undefined : `deploy_id:${flags.deployment}`);
      if (model === undefined) throw new CliError("Give a model with -m or a deployment with -d.", exitCode.wrongUsage);
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

/** True if `prompt` is a field of completions, not of an image model. */
async function isCompletion({ api }: Terminal, model: string, input: Flags["input"]): Promise<boolean> {
  if (!("prompt" in input)) return false;
  try {
    const { type } = await api.call<{ type?: string }>("GET", `/models/${encodeURIComponent(model)}`);
    return type !== "text-to-image";
  } catch {
    // The request itself reports the failure.
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

/** Webhooks work with native inference only. */
async function queue(terminal: Terminal, path: string, { input, webhook, stream, output }: Flags): Promise<void> {
  if (stream || output !== undefined)
    throw new CliError("--webhook cannot be combined with --stream or --output.", exitCode.wrongUsage);
  const answer = await terminal.api.call<{ readonly request_id: string }>("POST", path, { ...input, webhook });
  terminal.show(answer, ({ request_id: id }) => id);
  terminal.progress("Queued. `stoker webhook list` shows the delivery of the result.");
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
  for (const file of saveOutputs(answer, output ?? [])) terminal.progress(`Wrote ${file}`);
  terminal.show(answer, readable);
}

async function print<Event>(
  terminal: Terminal,
  events: AsyncGenerator<Event>,
  textOf: (event: Event) => string | undefined,
): Promise<void> {
  for await (const event of events) {
    const text = textOf(event);
    terminal.write(terminal.isStructured ? `${JSON.stringify(event)}\n` : (text ?? ""));
  }
  if (!terminal.isStructured) terminal.write("\n");
}

// Text and files of native inference responses. Files are data URIs in the response.
type Answer = Readonly<Record<string, unknown>>;

const uri = /^data:([\w.+/-]+);base64,(.*)$/s;

/** Saves fields as files. `outputs`: `field=path`; {IDX} is the index in a list, {EXT} the extension of the type. Returns the paths. */
function saveOutputs(answer: Answer, outputs: readonly string[]): readonly string[] {
  return outputs.flatMap((output) => {
    const cut = output.indexOf("=");
    if (cut < 1) throw new CliError("--output must be field=path, such as audio=a.wav.", exitCode.wrongUsage);
    const field = output.slice(0, cut);
    const path = output.slice(cut + 1);
    const value = answer[field];
    const files = (Array.isArray(value) ? value : [value]).map((one) => uri.exec(String(one ?? "")));
    if (files.length > 1 && !path.includes("{IDX}"))
      throw new CliError(`The response contains ${files.length} ${field}. Add {IDX} to the path.`, exitCode.wrongUsage);
    return files.map((found, index) => {
      if (!found) throw new CliError(`The response contains no file in ${field}.`, exitCode.failed);
      const [, type = "", bytes = ""] = found;
      const to = path.replaceAll("{IDX}", String(index)).replaceAll("{EXT}", extensionOf(type));
      writeLocalFile(to, Buffer.from(bytes, "base64"));
      return to;
    });
  });
}

const extensionOf = (type: string): string =>
  ({ "image/jpeg": "jpg", "audio/mpeg": "mp3" })[type] ?? type.split("/")[1] ?? "bin";

/** Generated or transcribed text unchanged; everything else as JSON with shortened files. */
function readable(answer: Answer): string {
  const { results, text } = answer;
  if (typeof text === "string") return text;
  const texts = Array.isArray(results) ? results.map((one: Answer) => one["generated_text"]) : [];
  if (texts.length > 0 && texts.every((one) => typeof one === "string")) return texts.join("\n");
  return JSON.stringify(answer, (_key, value) => (typeof value === "string" ? shortened(value) : value), 2);
}

function shortened(value: string): string {
  const [, type, bytes = ""] = uri.exec(value) ?? [];
  return type === undefined
    ? value
    : `data:${type};base64,... (${Buffer.from(bytes, "base64").length} bytes; -o saves it)`;
}
