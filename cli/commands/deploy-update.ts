// stoker deploy update: scale and arguments of a deployment that runs, told until it is done.
import { type Command, Option } from "commander";
import { CliError, exitCode } from "../cli-error.ts";
import { type Deployment, statusText, waitUntilDeployed } from "../deployment.ts";
import { atLeast, collect, seconds } from "../option-values.ts";
import { openTerminal, type Terminal } from "../terminal.ts";

interface UpdateFlags {
  readonly min?: number;
  readonly max?: number;
  readonly inactiveShutdown?: number;
  readonly concurrency?: number;
  readonly arg?: readonly string[];
  readonly wait: boolean;
  readonly timeout: number;
}

export function addDeployUpdate(deploy: Command): void {
  deploy
    .command("update <id>")
    .description("change scale or arguments; instances are replaced one after the other")
    .option("--min <n>", "least number of instances; 0: none while nobody asks", atLeast(0))
    .option("--max <n>", "most instances", atLeast(1))
    .option(
      "--inactive-shutdown <time>",
      "sleep after this time without requests, with --min 0; 0: the default",
      seconds,
    )
    .option(
      "--concurrency <n>",
      "most requests at once per instance; fewer is followed at once, more starts anew",
      atLeast(1),
    )
    .option("--arg <argument>", "extra engine argument, in place of all there are (repeatable)", collect)
    .option("--no-wait", "return as soon as it is accepted")
    .addOption(
      new Option("--timeout <time>", "how long to wait, e.g. 90s or 30m").argParser(seconds).default(1800, "30m"),
    )
    .action((id: string, flags: UpdateFlags, self: Command) => update(openTerminal(self), id, flags));
}

async function update(terminal: Terminal, id: string, flags: UpdateFlags): Promise<void> {
  const path = `/deploy/${encodeURIComponent(id)}`;
  const settings = {
    min_instances: flags.min,
    max_instances: flags.max,
    inactive_shutdown: flags.inactiveShutdown === 0 ? null : flags.inactiveShutdown,
  };
  const isScaled = Object.values(settings).some((value) => value !== undefined);
  const { concurrency } = flags;
  if (!isScaled && flags.arg === undefined && concurrency === undefined)
    throw new CliError(
      "nothing to change: give --min, --max, --inactive-shutdown, --concurrency or --arg",
      exitCode.wrongUsage,
    );
  // The set is replaced as a whole: what else stands in it stays.
  const standardArgs = concurrency && {
    ...(await terminal.api.call<Deployment>("GET", path)).standard_args,
    max_concurrent_requests: concurrency,
  };
  await terminal.api.call("PUT", path, {
    ...(isScaled ? { settings } : {}),
    ...(standardArgs ? { standard_args: standardArgs } : {}),
    extra_args: flags.arg,
  });
  const now = await terminal.api.call<Deployment>("GET", path);
  const last = flags.wait ? await waitUntilDeployed(terminal, now, flags.timeout) : now;
  if (flags.wait && last.update_error)
    throw new CliError(`the update was taken back: ${last.update_error}`, exitCode.failed);
  terminal.show(last, () => `${id} ${statusText(last)}`);
}
