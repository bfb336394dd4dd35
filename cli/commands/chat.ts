import { createInterface } from "node:readline/promises";
import { Chat, type Chunk, slashCommands } from "../chat.ts";
import { CliError, exitCode } from "../cli-error.ts";
import type { Command } from "../command.ts";
import type { Terminal } from "../terminal.ts";

interface Flags {
  readonly system?: string;
  readonly maxTokens?: number;
  readonly temperature?: number;
}

export function addChat(program: Command): void {
  program
    .command("chat <model> [message...]")
    .description("answer a message or stdin, or start a conversation in the terminal")
    .example('stoker chat org/model "Say hello."')
    .option("--system <text>", "system message")
    .option("--max-tokens <n>", "maximum number of tokens of the answer", Number)
    .option("--temperature <t>", "0 (deterministic) to 2", Number)
    .stream(async (terminal, model: string, words: string[], flags: Flags) => {
      const chat = new Chat(model, flags.system);
      if (words.length > 0) await answer(terminal, chat, words.join(" "), flags);
      else if (process.stdin.isTTY) await converse(terminal, chat, flags);
      else await answer(terminal, chat, await readStdin(), flags);
    });
}

async function converse(terminal: Terminal, chat: Chat, flags: Flags): Promise<void> {
  const prompt = createInterface({
    input: process.stdin,
    output: process.stderr,
    prompt: "> ",
    completer: (line: string): [string[], string] => [
      slashCommands.filter((one) => line.startsWith("/") && one.startsWith(line)),
      line,
    ],
  });
  let answering: AbortController | undefined;
  prompt.on("SIGINT", () => {
    if (answering) answering.abort();
    else prompt.close();
  });
  terminal.progress(`Chat with ${chat.model}. /help lists commands, /quit ends the chat.`);
  prompt.prompt();
  for await (const line of prompt) {
    const text = line.trim();
    if (text.startsWith("/") && !text.startsWith("//")) {
      const done = chat.command(text);
      if (done === "quit") break;
      terminal.progress(done);
    } else if (text !== "") {
      answering = new AbortController();
      await answer(terminal, chat, text.replace(/^\/\//, "/"), flags, answering.signal).catch((error: unknown) => {
        // A failed answer does not end the conversation, a rejected key does.
        if (!(error instanceof CliError) || error.exitCode === exitCode.notAuthenticated) throw error;
        const id = error.requestId === undefined ? "" : ` (request id ${error.requestId})`;
        terminal.progress(`error: ${error.message}${id}`);
      });
      answering = undefined;
    }
    prompt.prompt();
  }
  prompt.close();
}

/** Streams an answer to stdout and prints tokens per second and cost to stderr. Keeps both messages, unless it fails. */
async function answer(terminal: Terminal, chat: Chat, text: string, flags: Flags, signal?: AbortSignal): Promise<void> {
  const request = {
    model: chat.model,
    messages: [...chat.messages, { role: "user", content: text }],
    max_tokens: flags.maxTokens,
    temperature: flags.temperature,
    stream: true,
    stream_options: { include_usage: true },
  };
  let said = "";
  let firstMs: number | undefined;
  let usage: Chunk["usage"];
  try {
    for await (const chunk of terminal.api.stream<Chunk>("/v1/compat/chat/completions", request, signal)) {
      if (terminal.isStructured) terminal.write(`${JSON.stringify(chunk)}\n`);
      const piece = chunk.choices[0]?.delta?.content ?? "";
      if (piece !== "") firstMs ??= performance.now();
      said += piece;
      if (!terminal.isStructured) terminal.write(piece);
      usage = chunk.usage ?? usage;
    }
  } catch (error) {
    if (!signal?.aborted) throw error;
    terminal.write("\n");
    terminal.progress("Cancelled. This message and its answer are not kept.");
    return;
  }
  if (!terminal.isStructured) terminal.write("\n");
  const seconds = firstMs === undefined ? 0 : Math.max(0.001, (performance.now() - firstMs) / 1000);
  chat.keep(text, said, usage ?? undefined, seconds);
  if (usage && seconds > 0) {
    const cost = usage.estimated_cost === undefined ? "" : `, ${usage.estimated_cost.toFixed(9)} USD`;
    const rate = (usage.completion_tokens / seconds).toFixed(1);
    terminal.progress(`${usage.completion_tokens} tokens, ${rate} tokens/s${cost}`);
  }
}

async function readStdin(): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8").trim();
}
