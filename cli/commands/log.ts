import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import type { Api } from "../api.ts";
import { isAway } from "../deployment.ts";
import { type Entry, LogCursor, mostLines } from "../log-cursor.ts";
import { atLeast } from "../option-values.ts";
import { openTerminal, type Terminal } from "../terminal.ts";

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
    .description("log lines of a deployment")
    .option("--from <time>", "unix seconds")
    .option("--to <time>", "unix seconds")
    .option("--limit <n>", "how many lines", atLeast(1), 100)
    .option("--instance <id>", "one instance alone")
    .option("-f, --follow", "go on with new lines")
    .action(async (id: string, flags: LogFlags, command: Command) => {
      const terminal = openTerminal(command);
      const print = ([at, line]: Entry): void => {
        if (terminal.json) terminal.write(`${JSON.stringify({ at, line })}\n`);
        else terminal.write(`${new Date(Number(at) * 1000).toISOString()} ${line}\n`);
      };
      const cursor = new LogCursor(flags.from);
      let found = await read(terminal.api, id, flags, cursor.from);
      for (;;) {
        cursor.take(found).forEach(print);
        if (!flags.follow) return;
        if (cursor.isAtEnd) await sleep(followPauseMs);
        // What is asked for is how much of the past; of what is new nothing may be left behind.
        found = await readOnceBack(terminal, id, { ...flags, limit: mostLines }, cursor.from);
      }
    });
}

/** A server that is away for a moment ends no following: said once, and gone on when it is back. */
async function readOnceBack(terminal: Terminal, id: string, flags: LogFlags, from: string | undefined) {
  for (let isSaid = false; ; isSaid = true) {
    try {
      return await read(terminal.api, id, flags, from);
    } catch (error) {
      if (!isAway(error)) throw error;
      if (!isSaid) terminal.progress(`${error.message} Still following.`);
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
