// `stoker batch`: many requests of a file, run in the background.
import { setTimeout as sleep } from "node:timers/promises";
import { type Command, Option } from "commander";
import { CliError, exitCode } from "../cli-error.ts";
import { atLeast, seconds } from "../option-values.ts";
import { openTerminal, type Terminal } from "../terminal.ts";
import { downloadFile, uploadFile } from "./file.ts";

interface Batch {
  readonly id: string;
  readonly status: string;
  readonly endpoint: string;
  readonly model: string | null;
  readonly request_counts: { readonly total: number; readonly completed: number; readonly failed: number };
  readonly output_file_id: string | null;
  readonly error_file_id: string | null;
  readonly errors: { readonly data: readonly { readonly line: number | null; readonly message: string }[] } | null;
}

interface WaitFlags {
  readonly wait?: boolean;
  /** Seconds. */
  readonly timeout: number;
}

const lookEveryMs = 1_000;
/** The window of a batch, and time to write its files. */
const usualTimeout = 25 * 3600;
const mostOfPage = 100;
const ends: ReadonlySet<string> = new Set(["completed", "failed", "expired", "cancelled"]);
const of = (id: string) => `/v1/batches/${encodeURIComponent(id)}`;

export function addBatch(program: Command): void {
  const batch = program.command("batch").description("many requests of a file, run in the background");
  batch
    .command("create <path>")
    .description("upload a file of requests and run them; a file's id works as well")
    .option("--endpoint <path>", "what the requests are for", "/v1/chat/completions")
    .option("--wait", "until it has ended")
    .addOption(
      new Option("--timeout <time>", "wait no longer, e.g. 30m").argParser(seconds).default(usualTimeout, "25h"),
    )
    .action(async (path: string, flags: WaitFlags & { endpoint: string }, command: Command) => {
      const { endpoint, wait, timeout } = flags;
      const terminal = openTerminal(command);
      const input = /^file_\w+$/.test(path) ? path : (await uploadFile(terminal, path)).id;
      const wish = { input_file_id: input, endpoint, completion_window: "24h" };
      const made = await terminal.api.call<Batch>("POST", "/v1/batches", wish);
      terminal.show(wait ? await untilEnded(terminal, made, timeout) : made, (one) => one.id);
    });
  batch
    .command("get <id>")
    .alias("status")
    .description("how far a batch is")
    .option("--wait", "until it has ended")
    .addOption(
      new Option("--timeout <time>", "wait no longer, e.g. 30m").argParser(seconds).default(usualTimeout, "25h"),
    )
    .action(async (id: string, { wait, timeout }: WaitFlags, command: Command) => {
      const terminal = openTerminal(command);
      const found = await terminal.api.call<Batch>("GET", of(id));
      terminal.show(wait ? await untilEnded(terminal, found, timeout) : found, told);
    });
  batch
    .command("list")
    .description("batches, newest first")
    .option("--limit <n>", "at most", atLeast(1), 20)
    .action(async ({ limit }: { limit: number }, command: Command) => {
      const terminal = openTerminal(command);
      terminal.rows(await newest(terminal, limit), ["ID", "STATUS", "MODEL", "DONE", "FAILED", "OF"], (one) => [
        one.id,
        one.status,
        one.model ?? "",
        ...[one.request_counts.completed, one.request_counts.failed, one.request_counts.total].map(String),
      ]);
    });
  batch
    .command("cancel <id>")
    .description("begin no more of its requests; what was done is kept")
    .action(async (id: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      terminal.show(await terminal.api.call<Batch>("POST", `${of(id)}/cancel`), told);
    });
  batch
    .command("results <id>")
    .description("print the answers of a batch that has ended, one JSON object per line, or write them")
    .option("-o, --output <path>", "where to")
    .option("--errors", "those that failed instead")
    .action(async (id: string, flags: { output?: string; errors?: boolean }, command: Command) => {
      const terminal = openTerminal(command);
      const found = await terminal.api.call<Batch>("GET", of(id));
      const file = flags.errors ? found.error_file_id : found.output_file_id;
      if (file === null) {
        if (found.status === "failed") throw new CliError(told(found), exitCode.failed);
        const why = ends.has(found.status) ? "has no such results" : `is ${found.status}: results come at its end`;
        throw new CliError(`The batch ${why}.`, exitCode.failed);
      }
      await downloadFile(terminal, file, flags.output);
    });
}

/** As many pages as it takes. */
async function newest(terminal: Terminal, limit: number): Promise<readonly Batch[]> {
  const found: Batch[] = [];
  for (let after = ""; found.length < limit; ) {
    const query = new URLSearchParams({
      limit: String(Math.min(limit - found.length, mostOfPage)),
      ...(after && { after }),
    });
    const page = await terminal.api.call<{ data: Batch[]; has_more: boolean }>("GET", `/v1/batches?${query}`);
    found.push(...page.data);
    const last = page.data.at(-1);
    if (!page.has_more || !last) break;
    after = last.id;
  }
  return found;
}

async function untilEnded(terminal: Terminal, batch: Batch, limitSeconds: number): Promise<Batch> {
  const deadline = performance.now() + limitSeconds * 1000;
  let seen = batch;
  let said = "";
  while (!ends.has(seen.status)) {
    const line = told(seen);
    if (line !== said) terminal.progress(line);
    said = line;
    if (performance.now() > deadline) {
      const more = `stoker batch get ${batch.id} --wait`;
      throw new CliError(`${line}, after ${limitSeconds} s; it goes on: ${more}`, exitCode.timedOut);
    }
    await sleep(lookEveryMs);
    seen = await terminal.api.call<Batch>("GET", of(batch.id));
  }
  if (seen.status === "failed") throw new CliError(told(seen), exitCode.failed);
  return seen;
}

function told({ id, status, request_counts: { total, completed, failed }, errors }: Batch): string {
  const first = errors?.data[0];
  const why = first ? `: ${first.line === null ? "" : `line ${first.line}: `}${first.message}` : "";
  return `${id} is ${status}${why || `: ${completed} of ${total} done, ${failed} failed`}`;
}
