import { Option } from "commander";
import type { Responses } from "../../proto/gen/responses.ts";
import { CliError, exitCode } from "../cli-error.ts";
import type { Command } from "../command.ts";
import { atLeast, seconds } from "../option-values.ts";
import { poll } from "../poll.ts";
import { type Terminal, utcTime } from "../terminal.ts";
import { downloadFile, uploadFile } from "./file.ts";

type Batch = Responses["GET /v1/batches/{batch_id}"];

interface WaitFlags {
  readonly wait?: boolean;
  /** Seconds. */
  readonly timeout: number;
}

const pollIntervalMs = 1_000;
/** The completion window of a batch, plus time to write its files. */
const defaultTimeoutSeconds = 25 * 3600;
const maxPageSize = 100;
const finalStatuses: ReadonlySet<string> = new Set(["completed", "failed", "expired", "cancelled"]);
const of = (id: string) => `/v1/batches/${encodeURIComponent(id)}`;

export function addBatch(program: Command): void {
  const batch = program.command("batch").description("run the requests of a file in the background");
  batch
    .command("create <path>")
    .description("create a batch from a local file or a file id")
    .example("stoker batch create requests.jsonl --wait")
    .option("--endpoint <path>", "endpoint of the requests", "/v1/chat/completions")
    .option("--wait", "wait until it ends")
    .addOption(
      new Option("--timeout <time>", "maximum time to wait, such as 30m")
        .argParser(seconds)
        .default(defaultTimeoutSeconds, "25h"),
    )
    .run(async (terminal, path: string, flags: WaitFlags & { endpoint: string }) => {
      const { endpoint, wait, timeout } = flags;
      const input = /^file_\w+$/.test(path) ? path : (await uploadFile(terminal, path)).id;
      const body = { input_file_id: input, endpoint, completion_window: "24h" };
      const created = await terminal.api.call<Batch>("POST", "/v1/batches", body);
      terminal.show(wait ? await waitUntilEnded(terminal, created, timeout) : created, (one) => one.id);
    });
  batch
    .command("get <id>")
    .alias("status")
    .description("show the progress of a batch")
    .example("stoker batch get batch_ofAda --wait")
    .option("--wait", "wait until it ends")
    .addOption(
      new Option("--timeout <time>", "maximum time to wait, such as 30m")
        .argParser(seconds)
        .default(defaultTimeoutSeconds, "25h"),
    )
    .run(async (terminal, id: string, { wait, timeout }: WaitFlags) => {
      const found = await terminal.api.call<Batch>("GET", of(id));
      terminal.show(wait ? await waitUntilEnded(terminal, found, timeout) : found, statusText);
    });
  batch
    .command("list")
    .description("list batches, newest first")
    .example("stoker batch list")
    .option("--limit <n>", "maximum number of batches", atLeast(1), 20)
    .run(async (terminal, { limit }: { limit: number }) => {
      terminal.rows(
        await newest(terminal, limit),
        {
          ID: "id",
          STATUS: "status",
          MODEL: (one) => one.model ?? "",
          DONE: (one) => String(one.request_counts.completed),
          FAILED: (one) => String(one.request_counts.failed),
          TOTAL: (one) => String(one.request_counts.total),
        },
        {
          empty: "No batches. Create one: `stoker batch create FILE`",
          wide: {
            ENDPOINT: "endpoint",
            CREATED: (one) => utcTime(one.created_at),
            INPUT: "input_file_id",
            RESULTS: (one) => one.output_file_id ?? "",
          },
        },
      );
    });
  batch
    .command("cancel <id>")
    .description("cancel the remaining requests; finished results are kept")
    .example("stoker batch cancel batch_ofAda")
    .run(async (terminal, id: string) => {
      terminal.show(await terminal.api.call<Batch>("POST", `${of(id)}/cancel`), statusText);
    });
  batch
    .command("results <id>")
    .description("print or save the results of a finished batch, one JSON object per line")
    .example("stoker batch results batch_ofAda -o results.jsonl")
    .option("-o, --output <path>", "file to write (default: stdout)")
    .option("--errors", "failed requests instead")
    .stream(async (terminal, id: string, flags: { output?: string; errors?: boolean }) => {
      const found = await terminal.api.call<Batch>("GET", of(id));
      const file = flags.errors ? found.error_file_id : found.output_file_id;
      if (file === null) {
        if (found.status === "failed") throw new CliError(statusText(found), exitCode.failed);
        if (!flags.errors && found.error_file_id !== null)
          throw new CliError(
            `No request succeeded. The errors: \`stoker batch results ${id} --errors\``,
            exitCode.failed,
          );
        throw new CliError(
          finalStatuses.has(found.status)
            ? `The batch has no ${flags.errors ? "failed requests" : "results"}.`
            : `The batch is ${found.status}. Results are available when it ends.`,
          exitCode.failed,
        );
      }
      await downloadFile(terminal, file, flags.output);
    });
}

/** Reads as many pages as needed. */
async function newest(terminal: Terminal, limit: number): Promise<readonly Batch[]> {
  const found: Batch[] = [];
  for (let after = ""; found.length < limit; ) {
    const query = new URLSearchParams({
      limit: String(Math.min(limit - found.length, maxPageSize)),
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

async function waitUntilEnded(terminal: Terminal, batch: Batch, limitSeconds: number): Promise<Batch> {
  const last = await poll(terminal, {
    first: batch,
    read: () => terminal.api.call<Batch>("GET", of(batch.id)),
    isDone: ({ status }) => finalStatuses.has(status),
    text: statusText,
    pauseMs: pollIntervalMs,
    limitSeconds,
    timeoutText: (one) =>
      `${statusText(one)}, after ${limitSeconds} s. It continues in the background: \`stoker batch get ${batch.id} --wait\``,
  });
  if (last.status === "failed") throw new CliError(statusText(last), exitCode.failed);
  return last;
}

function statusText({ id, status, request_counts: { total, completed, failed }, errors }: Batch): string {
  const first = errors?.data[0];
  const why = first ? `: ${first.line === null ? "" : `line ${first.line}: `}${first.message}` : "";
  return `${id} is ${status}${why || `: ${completed} of ${total} done, ${failed} failed`}`;
}
