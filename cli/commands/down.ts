import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Option } from "commander";
import { isAlive, sendSignal } from "../../agent/process/process-identity.ts";
import { CliError, exitCode } from "../cli-error.ts";
import type { Command } from "../command.ts";
import { namedFolders, othersText } from "../data-folders.ts";
import { seconds } from "../option-values.ts";
import { type RunningUp, runningUp } from "../running-up.ts";

interface Flags {
  readonly data?: string;
  /** Seconds. */
  readonly timeout: number;
  readonly force?: boolean;
}

const pauseMs = 100;
/** `up` handles its second signal after its first. */
const betweenSignalsMs = 500;

export function addDown(program: Command): void {
  program
    .command("down")
    .description("stop an `up` of this machine: running requests end, data and models stay")
    .example("stoker down")
    .option("--data <folder>", "data folder of the `up` (default: STOKER_DATA or .stoker)")
    .addOption(new Option("--timeout <time>", "maximum time to wait").argParser(seconds).default(60, "60s"))
    .option("--force", "stop at once; running requests are cancelled")
    .run(async (terminal, flags: Flags) => {
      const folders = flags.data === undefined ? namedFolders(process.env, process.cwd()) : [resolve(flags.data)];
      const running = folders.map(runningUp).find((up) => up !== undefined && isAlive(up));
      const [first = ""] = folders;
      if (!running) {
        if (flags.data !== undefined && !existsSync(first))
          throw new CliError(`No data folder at ${first}.`, exitCode.notFound);
        const others = flags.data === undefined ? othersText(folders, process.env) : "";
        if (others) throw new CliError(`Stoker is not running on ${first}.${others}`, exitCode.wrongUsage);
        return terminal.show({ data: first, stopped: false }, () => `Stoker is not running on ${first}.`);
      }
      terminal.progress(`Stopping Stoker at ${running.url} (pid ${running.pid}) ...`);
      await stop(running, flags);
      terminal.show({ data: running.folder, stopped: true }, ({ data }) => `Stopped. Data and models stay in ${data}.`);
    });
}

async function stop(up: RunningUp, { timeout, force }: Flags): Promise<void> {
  if (!sendSignal(up, "SIGTERM") && isAlive(up))
    throw new CliError(
      `The process ${up.pid} belongs to another user. Run this command as that user.`,
      exitCode.notAuthenticated,
    );
  if (force) {
    await sleep(betweenSignalsMs);
    sendSignal(up, "SIGTERM");
  }
  const deadline = performance.now() + timeout * 1_000;
  while (isAlive(up)) {
    if (performance.now() > deadline)
      throw new CliError(
        `Stoker (pid ${up.pid}) still runs after ${timeout} s. \`stoker down --force\` stops it at once.`,
        exitCode.timedOut,
      );
    await sleep(pauseMs);
  }
}
