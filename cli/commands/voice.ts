import { basename } from "node:path";
import type { Responses } from "../../proto/gen/responses.ts";
import type { Command } from "../command.ts";
import { localBlob } from "../local-file.ts";
import { calledInFull, meantBy } from "../meant-by.ts";
import type { Terminal } from "../terminal.ts";

type Voice = Responses["GET /v1/voices/{voice_id}"];

export function addVoice(program: Command): void {
  const voice = program.command("voice").description("voices for text to speech");
  voice
    .command("list")
    .description("list your voices and the presets of served models")
    .example("stoker voice list")
    .run(async (terminal) => {
      const { voices } = await terminal.api.call<{ voices: Voice[] }>("GET", "/v1/voices");
      terminal.rows(
        voices,
        {
          ID: "voice_id",
          NAME: "name",
          KIND: (one) => one.kind ?? "",
          DESCRIPTION: "description",
        },
        { empty: "No voices. Create one: `stoker voice create NAME RECORDING`" },
      );
    });
  voice
    .command("create <name> <recordings...>")
    .alias("add")
    .description("create a mixed voice from recordings of one speaker (wav, mp3, flac, ogg, m4a, webm); not a clone")
    .example("stoker voice create Narrator a.wav b.wav")
    .option("--description <text>", "shown in lists")
    .run(async (terminal, name: string, recordings: string[], { description }: { description?: string }) => {
      const form = new FormData();
      form.set("name", name);
      if (description !== undefined) form.set("description", description);
      for (const path of recordings) form.append("files", await localBlob(path), basename(path));
      terminal.show(await terminal.api.upload<Voice>("/v1/voices/add", form), (made) => made.voice_id);
    });
  voice
    .command("update <voice>")
    .alias("edit")
    .description("rename a voice, given by id, name or prefix of either")
    .example("stoker voice update Narrator --name Reader")
    .requiredOption("--name <name>", "new name")
    .option("--description <text>", "shown in lists; removed if omitted")
    .run(async (terminal, given: string, { name, description }: { name: string; description?: string }) => {
      const id = await idOf(terminal, given);
      const form = new FormData();
      form.set("name", name);
      if (description !== undefined) form.set("description", description);
      const edited = await terminal.api.upload<Voice>(`/v1/voices/${encodeURIComponent(id)}/edit`, form);
      terminal.show(edited, (one) => `${one.voice_id} renamed to ${one.name}`);
    });
  voice
    .command("delete <voice>")
    .description("delete one of your voices, given by its full id or name")
    .example("stoker voice delete Reader")
    .confirm((_, voice: string) => `Delete voice ${voice}?`)
    .run(async (terminal, given: string) => {
      const id = await idOf(terminal, given, calledInFull);
      const deleted = await terminal.api.call("DELETE", `/v1/voices/${encodeURIComponent(id)}`);
      terminal.show(deleted, () => `${id} deleted`);
    });
}

/** Omits presets: the server reports that they cannot be changed. */
async function idOf({ api }: Terminal, given: string, find = meantBy): Promise<string> {
  const { voices } = await api.call<{ voices: Voice[] }>("GET", "/v1/voices");
  const own = voices.filter(({ kind }) => kind !== "preset");
  return find(
    given,
    own.map(({ voice_id: key, name }) => ({ key, names: [name] })),
  );
}
