import { basename } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Responses } from "../../proto/gen/responses.ts";
import type { Command } from "../command.ts";
import { localBlob, streamToLocalFile } from "../local-file.ts";
import { atLeast } from "../option-values.ts";
import { isoTime, type Terminal, utcTime } from "../terminal.ts";

type StoredFile = Responses["POST /v1/files"];

export function addFile(program: Command): void {
  const file = program.command("file").description("input and output files of batches");
  file
    .command("create <path>")
    .alias("upload")
    .alias("put")
    .description("upload a file of requests, one JSON object per line")
    .example("stoker file create requests.jsonl --expires 7")
    .option("--expires <days>", "days to keep it (default: 30)", atLeast(1))
    .run(async (terminal, path: string, { expires }: { expires?: number }) => {
      terminal.show(await uploadFile(terminal, path, expires), (made) => made.id);
    });
  file
    .command("list")
    .description("list files, newest first")
    .example("stoker file list")
    .option("--limit <n>", "maximum number of files", atLeast(1), 50)
    .run(async (terminal, { limit }: { limit: number }) => {
      const { data } = await terminal.api.call<{ data: StoredFile[] }>("GET", `/v1/files?limit=${limit}`);
      terminal.rows(
        data,
        {
          ID: "id",
          NAME: "filename",
          PURPOSE: "purpose",
          BYTES: "bytes",
          EXPIRES: (one) => isoTime(one.expires_at).slice(0, 10),
        },
        {
          empty: "No files. Upload one: `stoker file create FILE`",
          wide: { CREATED: (one) => utcTime(one.created_at) },
        },
      );
    });
  file
    .command("get <id>")
    .alias("download")
    .description("print or save a file")
    .example("stoker file get file_ofAda -o results.jsonl")
    .option("-o, --output <path>", "file to write (default: stdout)")
    .stream(async (terminal, id: string, { output }: { output?: string }) => downloadFile(terminal, id, output));
  file
    .command("delete <id>")
    .alias("rm")
    .description("delete a file")
    .example("stoker file delete file_ofAda")
    .confirm((_, id: string) => `Delete file ${id}?`)
    .run(async (terminal, id: string) => {
      terminal.show(await terminal.api.call("DELETE", `/v1/files/${encodeURIComponent(id)}`), () => `${id} deleted`);
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
  // Written as bytes: a chunk may end inside a character.
  else await pipeline(from, process.stdout, { end: false });
}
