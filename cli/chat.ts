// A conversation of `stoker chat`, and the commands in it.

import { existsSync } from "node:fs";
import { CliError } from "./cli-error.ts";
import { counted } from "./counted.ts";
import { writeLocalFile } from "./local-file.ts";

interface Message {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

export interface Chunk {
  readonly choices: readonly { readonly delta?: { readonly content?: string | null } }[];
  readonly usage?: {
    readonly prompt_tokens?: number;
    readonly completion_tokens: number;
    readonly estimated_cost?: number;
  } | null;
}

const help: Readonly<Record<string, string>> = {
  "/help": "show these commands",
  "/model [name]": "show the model, or continue with another one",
  "/system [text]": "show or replace the system message",
  "/clear": "forget the messages; the system message stays",
  "/save <file>": "write the conversation as Markdown, or as JSON to a .json file",
  "/stats": "show answers, tokens, speed and cost",
  "/quit": "end the chat",
};

export const slashCommands: readonly string[] = Object.keys(help).map((one) => one.split(" ")[0] ?? one);

export class Chat {
  model: string;
  #system: string | undefined;
  #messages: Message[] = [];
  #answers = 0;
  #inputTokens = 0;
  #outputTokens = 0;
  #seconds = 0;
  #usd = 0;

  constructor(model: string, system: string | undefined) {
    this.model = model;
    this.#system = system;
  }

  /** System message and all messages that are kept. */
  get messages(): readonly Message[] {
    return [
      ...(this.#system === undefined ? [] : [{ role: "system", content: this.#system } as const]),
      ...this.#messages,
    ];
  }

  /** `seconds`: from the first token to the last. */
  keep(question: string, answer: string, usage: NonNullable<Chunk["usage"]> | undefined, seconds: number): void {
    this.#messages.push({ role: "user", content: question }, { role: "assistant", content: answer });
    this.#answers += 1;
    this.#seconds += seconds;
    this.#inputTokens += usage?.prompt_tokens ?? 0;
    this.#outputTokens += usage?.completion_tokens ?? 0;
    this.#usd += usage?.estimated_cost ?? 0;
  }

  /** Runs a line that begins with `/`. Returns its text, or `quit`. */
  command(line: string): string {
    const [name = "", ...words] = line.split(/\s+/);
    const value = words.join(" ");
    switch (name) {
      case "/help":
        return Object.entries(help)
          .map(([usage, text]) => `  ${usage.padEnd(16)}${text}`)
          .concat("A message that begins with a slash: //text. Ctrl-C cancels an answer.")
          .join("\n");
      case "/model":
        if (value !== "") this.model = value;
        return `Model: ${this.model}`;
      case "/system":
        if (value !== "") this.#system = line.slice(line.indexOf(" ") + 1).trim();
        return this.#system === undefined ? "No system message." : `System message: ${this.#system}`;
      case "/clear": {
        const count = this.#messages.length;
        this.#messages = [];
        return `Forgot ${count} messages.`;
      }
      case "/save":
        return this.#save(value);
      case "/stats":
        return this.#stats();
      case "/quit":
      case "/exit":
        return "quit";
      default:
        return `Unknown command ${name}. /help lists the commands.`;
    }
  }

  #save(file: string): string {
    if (file === "") return "File name missing: /save chat.md";
    if (existsSync(file)) return `${file} exists. Choose another name.`;
    const text = file.endsWith(".json")
      ? `${JSON.stringify({ model: this.model, messages: this.messages }, undefined, 2)}\n`
      : this.#markdown();
    try {
      writeLocalFile(file, Buffer.from(text));
    } catch (error) {
      if (error instanceof CliError) return error.message;
      throw error;
    }
    return `Saved ${this.messages.length} messages to ${file}.`;
  }

  #markdown(): string {
    const parts = this.messages.map(({ role, content }) => `## ${role}\n\n${content}\n`);
    return [`# Chat with ${this.model}\n`, ...parts].join("\n");
  }

  #stats(): string {
    const rate = this.#seconds > 0 ? `, ${(this.#outputTokens / this.#seconds).toFixed(1)} tokens/s` : "";
    const tokens = `${this.#inputTokens} tokens in, ${this.#outputTokens} out`;
    return `${counted(this.#answers, "answer")}, ${tokens}${rate}, ${this.#usd.toFixed(9)} USD. ${this.#messages.length} messages are kept.`;
  }
}
