import { setTimeout as sleep } from "node:timers/promises";
import { type Command, Option } from "commander";
import { CliError, exitCode } from "../cli-error.ts";
import { isAway } from "../deployment.ts";
import { nodeGroup } from "../node-group.ts";
import { hostName, seconds } from "../option-values.ts";
import { openTerminal, type Terminal } from "../terminal.ts";

const root = "/v1/admin/nodes";
const pauseMs = 2_000;

interface Progress {
  readonly node_id: string;
  readonly total: number;
  readonly left: number;
  readonly fixed: number;
  readonly in_flight: number;
}

interface DrainFlags {
  readonly deadline: number;
  readonly force?: boolean;
  readonly note: string;
  readonly wait: boolean;
}

interface Proposal {
  readonly gpu: string;
  readonly node_id: string;
  readonly largest_now: number;
  readonly largest_after: number;
  readonly moves: readonly {
    readonly instance_id: string;
    readonly model_name: string;
    readonly from: string;
    readonly to: string;
    readonly gpus: number;
    readonly gap_seconds: number;
  }[];
}

export function addNodeOperations(program: Command): void {
  const node = nodeGroup(program);
  const of = (id: string) => `${root}/${encodeURIComponent(id)}`;

  node
    .command("cordon")
    .description("place nothing new on a host; what is there stays")
    .argument("<node>", "id or name", hostName)
    .option("--note <text>", "why; shown beside the host", "")
    .action(async (id: string, flags: { note: string }, command: Command) => {
      const terminal = openTerminal(command);
      const answer = await terminal.api.call<{ node_id: string }>("POST", `${of(id)}/cordon`, flags);
      terminal.show(answer, ({ node_id }) => `Host ${node_id} gets nothing new. \`stoker node uncordon\` ends that.`);
    });

  node
    .command("drain")
    .description("empty a host: each instance is replaced elsewhere before it goes")
    .argument("<node>", "id or name", hostName)
    .addOption(
      new Option("--deadline <time>", "empty by then; requests that still run are cut")
        .argParser(seconds)
        .default(600, "10m"),
    )
    .option("--force", "empty at once: nothing is replaced first, requests are cut")
    .option("--note <text>", "why; shown beside the host", "")
    .option("--no-wait", "return as soon as it has begun")
    .action(async (id: string, flags: DrainFlags, command: Command) => {
      const terminal = openTerminal(command);
      const body = { deadline_seconds: flags.force ? 0 : flags.deadline, note: flags.note };
      const begun = await terminal.api.call<Progress>("POST", `${of(id)}/drain`, body);
      const last = flags.wait ? await untilEmpty(terminal, begun) : begun;
      terminal.show(last, progressText);
    });

  node
    .command("remove")
    .description("forget a host that is away and empty")
    .argument("<node>", "id or name", hostName)
    .action(async (id: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const answer = await terminal.api.call<{ node_id: string }>("DELETE", of(id));
      terminal.show(answer, ({ node_id }) => `Host ${node_id} is forgotten.`);
    });

  node
    .command("end-unknown")
    .description("end what runs on a host and no deployment knows")
    .argument("<node>", "id or name", hostName)
    .argument("[instance...]", "these alone")
    .option("--note <text>", "why, for the audit log", "")
    .action(async (id: string, instances: string[], flags: { note: string }, command: Command) => {
      const terminal = openTerminal(command);
      const body = { ...(instances.length > 0 ? { instance_ids: instances } : {}), note: flags.note };
      const path = `${of(id)}/end-unknown`;
      const answer = await terminal.api.call<{ node_id: string; instance_ids: string[] }>("POST", path, body);
      terminal.show(answer, ({ node_id, instance_ids: ended }) =>
        ended.length > 0
          ? `Host ${node_id} ends ${ended.join(", ")}.`
          : `Nothing of that runs on host ${node_id} without a deployment that knows it.`,
      );
    });

  node
    .command("rebalance")
    .description("which moves would open the largest hole")
    .option("--dry-run", "only show them: nothing moves by itself")
    .action(async (flags: { dryRun?: boolean }, command: Command) => {
      const terminal = openTerminal(command);
      if (!flags.dryRun)
        throw new CliError(
          "Nothing moves by itself. See the moves with --dry-run, and make them with `stoker node drain` or by restarting a deployment.",
          exitCode.wrongUsage,
        );
      const { proposal } = await terminal.api.call<{ proposal: Proposal | null }>("GET", `${root}/rebalance`);
      terminal.show(proposal, proposalText);
    });
}

async function untilEmpty(terminal: Terminal, begun: Progress): Promise<Progress> {
  let last = begun;
  let told = "";
  let isAwaySaid = false;
  for (;;) {
    // What stays on its host is its owner's to end: waiting for it helps nobody.
    if (last.left <= last.fixed) return last;
    const text = progressText(last);
    if (text !== told) terminal.progress(text);
    told = text;
    await sleep(pauseMs);
    try {
      last = await terminal.api.call<Progress>("GET", `${root}/${encodeURIComponent(begun.node_id)}/drain`);
      isAwaySaid = false;
    } catch (error) {
      if (!isAway(error)) throw error;
      if (!isAwaySaid) terminal.progress(`${error.message} Still waiting.`);
      isAwaySaid = true;
    }
  }
}

function progressText({ node_id: id, total, left, fixed, in_flight: requests }: Progress): string {
  const rest = fixed > 0 ? `; ${fixed} stay until their owners end them` : "";
  const busy = requests > 0 ? `; ${requests} requests run there` : "";
  const after = left === 0 ? " It is empty: `stoker node uncordon` puts it back into use." : "";
  return `Host ${id}: ${total - left}/${total} instances moved away${busy}${rest}.${after}`;
}

function proposalText(proposal: Proposal | null): string {
  if (!proposal) return "No moves would open a larger hole.";
  const { gpu, node_id: id, largest_now: now, largest_after: after, moves } = proposal;
  return [
    `${after} free ${gpu} on ${id} instead of ${now} at most, by ${moves.length} moves:`,
    ...moves.map(
      (move) =>
        `  ${move.model_name} (${move.instance_id}, ${move.gpus} GPUs) ${move.from} -> ${move.to}, gap ${move.gap_seconds} s`,
    ),
  ].join("\n");
}
