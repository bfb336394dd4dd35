import { setTimeout as sleep } from "node:timers/promises";
import type { Api } from "../api.ts";
import { type Command, deployGroup } from "../command.ts";
import { atLeast } from "../option-values.ts";
import { isUnavailable } from "../poll.ts";
import { isoTime, type Terminal } from "../terminal.ts";

const followPauseMs = 2000;

interface LogFlags {
  readonly from?: string;
  readonly to?: string;
  readonly limit: number;
  readonly instance?: string;
  readonly follow?: boolean;
}

export function addLog(program: Command): void {
  addLogs(deployGroup(program).command("logs <id>").example("stoker deploy logs DpM4BkrjEspUwmTa --follow"));
  // Its old name.
  addLogs(program.command("log <id>", { hidden: true }));
}

const addLogs = (command: Command): Command =>
  command
    .description("print the log of a deployment")
    .option("--from <time>", "start, Unix seconds")
    .option("--to <time>", "end, Unix seconds")
    .option("--limit <n>", "maximum number of lines", atLeast(1), 100)
    .option("--instance <id>", "only this instance")
    .option("-f, --follow", "print new lines as they appear")
    .stream(async (terminal, id: string, flags: LogFlags) => {
      const print = (entry: Entry): void => printLine(terminal, entry);
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

export function printLine(terminal: Terminal, [at, line]: Entry): void {
  terminal.write(terminal.isStructured ? `${JSON.stringify({ at, line })}\n` : `${isoTime(Number(at))} ${line}\n`);
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

// Position in a followed log: lines already shown, start of the next page, and whether to wait before reading it.
export type Entry = readonly [at: string, line: string];

/** Maximum number of lines per page. */
export const maxLines = 1000;

export class LogCursor {
  /** Unix seconds. Undefined: the newest lines. */
  from: string | undefined;
  /** All current lines were read. */
  isAtEnd = false;
  #seen: string | undefined;
  /** Lines shown with that timestamp, and how often. */
  #shown = new Map<string, number>();

  constructor(from: string | undefined) {
    this.from = from;
  }

  /** Returns the new lines of a page. A range includes its start, so a page repeats the lines of the last timestamp. */
  take(found: readonly Entry[]): readonly Entry[] {
    const seen = this.#seen;
    const again = new Map(this.#shown);
    const fresh = found.filter(([at, line]) => {
      if (seen === undefined || at > seen) return true;
      if (at < seen) return false;
      const left = again.get(line) ?? 0;
      again.set(line, left - 1);
      return left <= 0;
    });
    this.isAtEnd = fresh.length === 0 || found.length < maxLines;
    const last = fresh.at(-1)?.[0];
    if (last !== undefined) {
      if (last !== seen) this.#shown.clear();
      for (const [at, line] of fresh) if (at === last) this.#shown.set(line, (this.#shown.get(line) ?? 0) + 1);
      this.from = this.#seen = last;
    }
    // The page holds one timestamp only and would repeat forever: skip the other lines of that timestamp.
    else if (seen !== undefined && found.length >= maxLines) this.from = after(seen);
    return fresh;
  }
}

/** Adds a nanosecond. */
function after(at: string): string {
  const [seconds = "0", decimals = ""] = at.split(".");
  const nanos = BigInt(seconds) * 1_000_000_000n + BigInt(decimals.padEnd(9, "0")) + 1n;
  return `${nanos / 1_000_000_000n}.${String(nanos % 1_000_000_000n).padStart(9, "0")}`;
}
