import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import type { Api } from "../api.ts";
import { type Entry, LogCursor, maxLines } from "../log-cursor.ts";
import { atLeast } from "../option-values.ts";
import { isUnavailable } from "../poll.ts";
import { isoTime, openTerminal, type Terminal } from "../terminal.ts";

const followPauseMs = 2000;

interface LogFlags {
  readonly from?: string;
  readonly to?: string;
  readonly limit: number;
  readonly instance?: string;
  readonly follow?: boolean;
}

export function addLog(program: Command): void {
  program
    .command("log <id>")
    .description("print the log of a deployment")
    .option("--from <time>", "start, Unix seconds")
    .option("--to <time>", "end, Unix seconds")
    .option("--limit <n>", "maximum number of lines", atLeast(1), 100)
    .option("--instance <id>", "only this instance")
    .option("-f, --follow", "print new lines as they appear")
    .action(async (id: string, flags: LogFlags, command: Command) => {
      const terminal = openTerminal(command);
      const print = ([at, line]: Entry): void => {
        if (terminal.json) terminal.write(`${JSON.stringify({ at, line })}\n`);
        else terminal.write(`${isoTime(Number(at))} ${line}\n`);
      };
      const cursor = new LogCursor(flags.from);
      let found = await read(terminal.api, id, flags, cursor.from);
      for (;;) {
        cursor.take(found).forEach(print);
        if (!flags.follow) return;
        if (cursor.isAtEnd) await sleep(followPauseMs);
        // --limit applies to past lines only; new lines are printed completely.
        found = await readWithRetry(terminal, id, { ...flags, limit: maxLines }, cursor.from);
      }
    });
}

/** Retries while the server is unavailable and reports that once. */
async function readWithRetry(terminal: Terminal, id: string, flags: LogFlags, from: string | undefined) {
  for (let isReported = false; ; isReported = true) {
    try {
      return await read(terminal.api, id, flags, from);
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      if (!isReported) terminal.progress(`${error.message} Still following.`);
      await sleep(followPauseMs);
    }
  }
}

async function read(api: Api, id: string, flags: LogFlags, from: string | undefined): Promise<readonly Entry[]> {
  const query = new URLSearchParams({ deploy_id: id, limit: String(flags.limit) });
  if (from !== undefined) query.set("from", from);
  if (flags.to !== undefined) query.set("to", flags.to);
  if (flags.instance === undefined)
    return (await api.call<{ entries: Entry[] }>("GET", `/v1/logs/query?${query}`)).entries;
  query.set("pod_name", flags.instance);
  const { entries } = await api.call<{ entries: Record<string, Entry[]> }>("GET", `/v1/deployment_logs/query?${query}`);
  return entries[flags.instance] ?? [];
}
