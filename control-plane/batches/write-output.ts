import { Readable } from "node:stream";
import type { Files } from "../files/files.ts";
import type { Batch } from "./batch.ts";
import type { BatchStore, OutputFile } from "./store.ts";

/** Page size in memory. */
const page = { lines: 200, bytes: 4 * 1024 * 1024 };

/** Writes the results, without empty files. The files are published when the batch ends. */
export async function writeOutput(
  deps: { readonly store: Pick<BatchStore, "results">; readonly files: Pick<Files, "write"> },
  batch: Batch,
  signal: AbortSignal,
): Promise<{ readonly output: OutputFile | undefined; readonly errors: OutputFile | undefined }> {
  async function* linesOf(isError: boolean): AsyncGenerator<string> {
    for (let after = 0; ; ) {
      const results = await deps.store.results(batch.id, isError, after, page);
      for (const { body } of results) yield `${body}\n`;
      const last = results.at(-1);
      if (!last) return;
      after = last.line;
    }
  }
  async function write(isError: boolean): Promise<OutputFile | undefined> {
    const [some] = await deps.store.results(batch.id, isError, 0, { lines: 1, bytes: 1 });
    if (!some) return undefined;
    const written = await deps.files.write(
      batch.account,
      Readable.from(linesOf(isError), { objectMode: false }),
      signal,
    );
    return { ...written, filename: `${batch.id}_${isError ? "error" : "output"}.jsonl` };
  }
  return { output: await write(false), errors: await write(true) };
}
