import { createInterface } from "node:readline/promises";
import type { Command } from "../command.ts";
import type { Terminal } from "../terminal.ts";

interface Message {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

interface Chunk {
  readonly choices: readonly { readonly delta?: { readonly content?: string | null } }[];
  readonly usage?: { readonly completion_tokens: number; readonly estimated_cost?: number } | null;
}

export function addChat(program: Command): void {
  program
    .command("chat <model> [message...]")
    .description("answer a message or stdin, or start a conversation in the terminal")
    .option("--system <text>", "system message")
    .option("--max-tokens <n>", "maximum number of tokens of the answer", Number)
    .option("--temperature <t>", "0 (deterministic) to 2", Number)
    .stream(
      async (
        terminal,
        model: string,
        words: string[],
        flags: { system?: string; maxTokens?: number; temperature?: number },
      ) => {
        const before: Message[] = flags.system === undefined ? [] : [{ role: "system", content: flags.system }];
        const answer = (messages: readonly Message[]): Promise<string> =>
          streamAnswer(terminal, { model, messages, max_tokens: flags.maxTokens, temperature: flags.temperature });
        if (words.length > 0) await answer([...before, { role: "user", content: words.join(" ") }]);
        else if (process.stdin.isTTY) await converse(before, answer);
        else await answer([...before, { role: "user", content: await readStdin() }]);
      },
    );
}

async function converse(before: Message[], answer: (messages: readonly Message[]) => Promise<string>): Promise<void> {
  const prompt = createInterface({ input: process.stdin, output: process.stderr, prompt: "> " });
  const messages = [...before];
  prompt.prompt();
  for await (const line of prompt) {
    if (line.trim() === "/exit") break;
    if (line.trim() !== "") {
      messages.push({ role: "user", content: line });
      messages.push({ role: "assistant", content: await answer(messages) });
    }
    prompt.prompt();
  }
  prompt.close();
}

/** Streams an answer to stdout and prints tokens per second and cost to stderr. */
async function streamAnswer(terminal: Terminal, body: object): Promise<string> {
  let text = "";
  let firstMs: number | undefined;
  let usage: Chunk["usage"];
  const request = { ...body, stream: true, stream_options: { include_usage: true } };
  for await (const chunk of terminal.api.stream<Chunk>("/v1/compat/chat/completions", request)) {
    if (terminal.isStructured) terminal.write(`${JSON.stringify(chunk)}\n`);
    const piece = chunk.choices[0]?.delta?.content ?? "";
    if (piece !== "") firstMs ??= performance.now();
    text += piece;
    if (!terminal.isStructured) terminal.write(piece);
    usage = chunk.usage ?? usage;
  }
  if (!terminal.isStructured) terminal.write("\n");
  if (usage && firstMs !== undefined) {
    const rate = usage.completion_tokens / Math.max(0.001, (performance.now() - firstMs) / 1000);
    const cost = usage.estimated_cost === undefined ? "" : `, ${usage.estimated_cost.toFixed(9)} USD`;
    terminal.progress(`${usage.completion_tokens} tokens, ${rate.toFixed(1)} tokens/s${cost}`);
  }
  return text;
}

async function readStdin(): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8").trim();
}
