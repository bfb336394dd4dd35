// `stoker voice`: voices of the account, made from recordings, beside those that the served models come with.
import { basename } from "node:path";
import type { Command } from "commander";
import { localBlob } from "../local-file.ts";
import { calledInFull, meantBy } from "../meant-by.ts";
import { openTerminal, type Terminal } from "../terminal.ts";

interface Voice {
  readonly voice_id: string;
  readonly name: string;
  readonly description: string;
  readonly kind?: string;
}

export function addVoice(program: Command): void {
  const voice = program.command("voice").description("voices for text to speech");
  voice
    .command("list")
    .description("your own voices and those that the served models come with")
    .action(async (_flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const { voices } = await terminal.api.call<{ voices: Voice[] }>("GET", "/v1/voices");
      terminal.rows(voices, ["ID", "NAME", "KIND", "DESCRIPTION"], (one) => [
        one.voice_id,
        one.name,
        one.kind ?? "",
        one.description,
      ]);
    });
  voice
    .command("add <name> <recordings...>")
    .description("mix a voice from recordings of one speaker (wav, mp3, flac, ogg, m4a, webm); no clone")
    .option("--description <text>", "shown in lists")
    .action(async (name: string, recordings: string[], { description }: { description?: string }, command: Command) => {
      const terminal = openTerminal(command);
      const form = new FormData();
      form.set("name", name);
      if (description !== undefined) form.set("description", description);
      for (const path of recordings) form.append("files", await localBlob(path), basename(path));
      terminal.show(await terminal.api.upload<Voice>("/v1/voices/add", form), (made) => made.voice_id);
    });
  voice
    .command("edit <voice>")
    .description("rename a voice: by its id, its name, or the beginning of either")
    .requiredOption("--name <name>", "its name from now on")
    .option("--description <text>", "shown in lists; none without this")
    .action(async (given: string, { name, description }: { name: string; description?: string }, command: Command) => {
      const terminal = openTerminal(command);
      const id = await idOf(terminal, given);
      const form = new FormData();
      form.set("name", name);
      if (description !== undefined) form.set("description", description);
      const edited = await terminal.api.upload<Voice>(`/v1/voices/${encodeURIComponent(id)}/edit`, form);
      terminal.show(edited, (one) => `${one.voice_id} is called ${one.name}`);
    });
  voice
    .command("delete <voice>")
    .description("delete a voice of your own: by its id or its name, in full")
    .action(async (given: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const id = await idOf(terminal, given, calledInFull);
      const ended = await terminal.api.call("DELETE", `/v1/voices/${encodeURIComponent(id)}`);
      terminal.show(ended, () => `${id} is deleted.`);
    });
}

/** Presets are left to the server: it says that they cannot be changed. */
async function idOf({ api }: Terminal, given: string, find = meantBy): Promise<string> {
  const { voices } = await api.call<{ voices: Voice[] }>("GET", "/v1/voices");
  const own = voices.filter(({ kind }) => kind !== "preset");
  return find(
    given,
    own.map(({ voice_id: key, name }) => ({ key, names: [name] })),
  );
}
