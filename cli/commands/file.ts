// `stoker file`: files of the account, which batches read and write.
import { basename } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Command } from "commander";
import { localBlob, streamToLocalFile } from "../local-file.ts";
import { atLeast } from "../option-values.ts";
import { openTerminal, type Terminal } from "../terminal.ts";

interface StoredFile {
  readonly id: string;
  readonly filename: string;
  readonly purpose: string;
  readonly bytes: number;
  /** Unix seconds. */
  readonly created_at: number;
  readonly expires_at: number;
}

export function addFile(program: Command): void {
  const file = program.command("file").description("files of this account, for batches");
  file
    .command("upload <path>")
    .alias("put")
    .description("store a file of requests, one JSON object per line")
    .option("--expires <days>", "kept so long (default: 30)", atLeast(1))
    .action(async (path: string, { expires }: { expires?: number }, command: Command) => {
      const terminal = openTerminal(command);
      terminal.show(await uploadFile(terminal, path, expires), (made) => made.id);
    });
  file
    .command("list")
    .description("files, newest first")
    .option("--limit <n>", "at most", atLeast(1), 50)
    .action(async ({ limit }: { limit: number }, command: Command) => {
      const terminal = openTerminal(command);
      const { data } = await terminal.api.call<{ data: StoredFile[] }>("GET", `/v1/files?limit=${limit}`);
      terminal.rows(data, ["ID", "NAME", "PURPOSE", "BYTES", "EXPIRES"], (one) => [
        one.id,
        one.filename,
        one.purpose,
        String(one.bytes),
        new Date(one.expires_at * 1000).toISOString().slice(0, 10),
      ]);
    });
  file
    .command("download <id>")
    .alias("get")
    .description("print a file, or write it")
    .option("-o, --output <path>", "where to")
    .action(async (id: string, { output }: { output?: string }, command: Command) =>
      downloadFile(openTerminal(command), id, output),
    );
  file
    .command("delete <id>")
    .alias("rm")
    .description("delete a file")
    .action(async (id: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      terminal.show(
        await terminal.api.call("DELETE", `/v1/files/${encodeURIComponent(id)}`),
        () => `${id} is deleted.`,
      );
    });
}

export async function uploadFile(terminal: Terminal, path: string, expiresDays?: number): Promise<StoredFile> {
  const form = new FormData();
  form.set("purpose", "batch");
  if (expiresDays !== undefined) {
    form.set("expires_after[anchor]", "created_at");
    form.set("expires_after[seconds]", String(expiresDays * 86_400));
  }
  form.set("file", await localBlob(path), basename(path));
  return terminal.api.upload<StoredFile>("/v1/files", form);
}

export async function downloadFile(terminal: Terminal, id: string, output: string | undefined): Promise<void> {
  const bytes = await terminal.api.download(`/v1/files/${encodeURIComponent(id)}/content`);
  const from = Readable.fromWeb(bytes as Parameters<typeof Readable.fromWeb>[0]);
  if (output !== undefined) await streamToLocalFile(output, from);
  // As bytes: a piece may end inside of a character.
  else await pipeline(from, process.stdout, { end: false });
}
