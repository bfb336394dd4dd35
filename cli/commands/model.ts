import type { Command } from "commander";
import { openTerminal } from "../terminal.ts";

interface Model {
  readonly id: string;
  readonly owned_by?: string;
  readonly metadata?: {
    readonly context_length?: number;
    readonly pricing?: { readonly input_tokens?: number; readonly output_tokens?: number };
  } | null;
}

export function addModel(program: Command): void {
  program
    .command("model")
    .description("models that can be called")
    .command("list")
    .description("all of them, with prices in USD per million tokens")
    .option("--search <text>", "only names that contain it")
    .action(async (flags: { search?: string }, command: Command) => {
      const terminal = openTerminal(command);
      const { data } = await terminal.api.call<{ data: Model[] }>("GET", "/v1/models");
      const wanted = flags.search?.toLowerCase() ?? "";
      terminal.rows(
        data.filter((model) => model.id.toLowerCase().includes(wanted)),
        ["MODEL", "CONTEXT", "INPUT", "OUTPUT"],
        ({ id, metadata }) => [
          id,
          String(metadata?.context_length ?? ""),
          String(metadata?.pricing?.input_tokens ?? ""),
          String(metadata?.pricing?.output_tokens ?? ""),
        ],
      );
    });
}
