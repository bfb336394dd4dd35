import { Option } from "commander";
import type { Responses } from "../../proto/gen/responses.ts";
import { CliError, exitCode } from "../cli-error.ts";
import { type Command, nodeGroup } from "../command.ts";
import { confirm } from "../confirm.ts";
import { counted } from "../counted.ts";
import { dryRunOption, endDryRun } from "../dry-run.ts";
import type { Node } from "../node.ts";
import { hostName, seconds } from "../option-values.ts";
import { poll } from "../poll.ts";
import { isoTime, type Terminal } from "../terminal.ts";

const root = "/v1/admin/nodes";
const pauseMs = 2_000;

type Progress = Responses["GET /v1/admin/nodes/{id}/drain"];

type Preview = Responses["GET /v1/admin/nodes/{id}/drain-preview"];

interface DrainFlags {
  readonly deadline: number;
  readonly force?: boolean;
  readonly note: string;
  readonly wait: boolean;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

type Proposal = NonNullable<Responses["GET /v1/admin/nodes/rebalance"]["proposal"]>;

export function addNodeOperations(program: Command): void {
  const node = nodeGroup(program);
  const of = (id: string) => `${root}/${encodeURIComponent(id)}`;

  node
    .command("cordon")
    .description("stop placing instances on a host; running instances stay")
    .example('stoker node cordon gpu-1 --note "disk"')
    .argument("<node>", "id or name", hostName)
    .option("--note <text>", "reason, shown with the host", "")
    .run(async (terminal, id: string, flags: { note: string }) => {
      const answer = await terminal.api.call<{ node_id: string }>("POST", `${of(id)}/cordon`, flags);
      terminal.show(
        answer,
        ({ node_id }) => `Host ${node_id} cordoned. \`stoker node uncordon\` puts it back into use.`,
      );
    });

  node
    .command("drain")
    .description(
      "drain a host: start a replacement of each instance elsewhere before stopping it; " +
        "asks first if one cannot move; `stoker node uncordon` undoes it",
    )
    .example("stoker node drain gpu-1 --deadline 30m")
    .example("stoker node drain gpu-1 --dry-run")
    .argument("<node>", "id or name", hostName)
    .addOption(
      new Option("--deadline <time>", "time until running requests are cancelled")
        .argParser(seconds)
        .default(600, "10m"),
    )
    .option("--force", "stop instances at once, without replacement, and cancel requests")
    .option("--note <text>", "reason, shown with the host", "")
    .option("--no-wait", "return immediately")
    .option("--dry-run", "show what would move, where to, and what cannot move; change nothing")
    .confirm(
      async ({ api }, id: string) => {
        const { name, instances } = await api.call<Node>("GET", of(id));
        return `Stop the ${instances.length} instances of ${name} at once and cancel their requests?`;
      },
      ({ force, dryRun }) => force === true && dryRun !== true,
    )
    .run(async (terminal, id: string, flags: DrainFlags) => {
      if (flags.dryRun) {
        const preview = await terminal.api.call<Preview>("GET", `${of(id)}/drain-preview`);
        return terminal.show(preview, flags.force ? forceText : previewText);
      }
      if (!flags.force) await confirmEnds(terminal, `${of(id)}/drain-preview`, flags);
      const body = { deadline_seconds: flags.force ? 0 : flags.deadline, note: flags.note };
      const started = await terminal.api.call<Progress>("POST", `${of(id)}/drain`, body);
      terminal.progress(`Undo: \`stoker node uncordon ${id}\``);
      const last = flags.wait ? await waitUntilEmpty(terminal, started) : started;
      terminal.show(last, progressText);
    });

  node
    .command("delete")
    .alias("remove")
    .description("remove a host that is unavailable and empty")
    .example("stoker node delete gpu-1")
    .argument("<node>", "id or name", hostName)
    .confirm((_, id: string) => `Remove host ${id}? It must join again with a new token.`)
    .run(async (terminal, id: string) => {
      const answer = await terminal.api.call<{ node_id: string }>("DELETE", of(id));
      terminal.show(answer, ({ node_id }) => `Host ${node_id} removed.`);
    });

  node
    .command("end-unknown")
    .description("stop instances on a host that belong to no deployment")
    .example("stoker node end-unknown gpu-1")
    .argument("<node>", "id or name", hostName)
    .argument("[instance...]", "only these instances")
    .option("--note <text>", "reason, recorded in the audit log", "")
    .confirm((_, id: string, instances: string[]) =>
      instances.length > 0
        ? `Stop ${instances.join(", ")} on host ${id}?`
        : `Stop all instances on host ${id} that belong to no deployment?`,
    )
    .run(async (terminal, id: string, instances: string[], flags: { note: string }) => {
      const body = { instance_ids: instances.length > 0 ? instances : undefined, note: flags.note };
      const path = `${of(id)}/end-unknown`;
      const answer = await terminal.api.call<{ node_id: string; instance_ids: string[] }>("POST", path, body);
      terminal.show(answer, ({ node_id, instance_ids: stopped }) =>
        stopped.length > 0
          ? `Host ${node_id} stops ${stopped.join(", ")}.`
          : `No unknown instances on host ${node_id}.`,
      );
    });

  node
    .command("rebalance")
    .description("propose moves that free the most GPUs on one host")
    .example("stoker node rebalance --dry-run")
    .option(...dryRunOption("show the moves (required, because moves are not automatic)"))
    .run(async (terminal, flags: { dryRun?: boolean }) => {
      if (!flags.dryRun)
        throw new CliError(
          "Moves are not automatic. Show them with --dry-run, then use `stoker node drain` or restart a deployment.",
          exitCode.wrongUsage,
        );
      const { proposal } = await terminal.api.call<{ proposal: Proposal | null }>("GET", `${root}/rebalance`);
      terminal.show(proposal, proposalText);
      endDryRun(proposal !== null);
    });
}

/** Prints which instances would end at the deadline without a replacement, and asks. Throws CliError if the answer is no. */
async function confirmEnds(terminal: Terminal, path: string, { deadline, yes }: DrainFlags): Promise<void> {
  const preview = await terminal.api.call<Preview>("GET", path);
  const ending = preview.instances.filter(({ outcome }) => outcome === "waits");
  if (ending.length === 0) return;
  terminal.progress(previewText(preview));
  const end = isoTime(Math.floor(Date.now() / 1000) + deadline);
  terminal.progress(
    `At ${end} these end without a replacement: ${ending.map((one) => `${one.deploy_name} (${one.instance_id})`).join(", ")}.`,
  );
  if (!yes) await confirm("stoker node drain", () => `Drain ${preview.name}?`);
}

/** Does not wait for instances that stay until their owners stop them. */
const waitUntilEmpty = (terminal: Terminal, first: Progress): Promise<Progress> =>
  poll(terminal, {
    first,
    read: () => terminal.api.call<Progress>("GET", `${root}/${encodeURIComponent(first.node_id)}/drain`),
    isDone: ({ left, fixed }) => left <= fixed,
    text: progressText,
    pauseMs,
  });

function progressText({ node_id: id, total, left, fixed, in_flight: requests }: Progress): string {
  const rest =
    fixed > 0
      ? `; ${fixed} ${fixed === 1 ? "stays" : "stay"} until stopped by ${fixed === 1 ? "its owner" : "their owners"}`
      : "";
  const busy = requests > 0 ? `; ${counted(requests, "running request")}` : "";
  const after = left === 0 ? " Drained: `stoker node uncordon` puts it back into use." : "";
  return `Host ${id}: ${total - left}/${total} instances moved${busy}${rest}.${after}`;
}

const outcomeTexts: Readonly<Record<Preview["instances"][number]["outcome"], string>> = {
  moves: "",
  stops: "stops: its deployment needs no replacement",
  stays: "stays until its owner stops it: its data is on this host",
  waits: "cannot move: serves until the deadline, then stops",
};

function previewText({ name, instances }: Preview): string {
  if (instances.length === 0) return `Host ${name} has no instances.`;
  const count = (outcome: string) => instances.filter((one) => one.outcome === outcome).length;
  const lines = instances.flatMap((one) => [
    `  ${instanceText(one)}`,
    `    ${one.to ? `-> ${one.to.name}` : outcomeTexts[one.outcome]}`,
    ...one.reasons.map(({ host, why }) => `       ${host}: ${why}`),
  ]);
  return [
    `Host ${name}: ${count("moves")} of ${instances.length} instances move, ${count("waits")} cannot move, ${count("stays")} stay, ${count("stops")} stop.`,
    ...lines,
  ].join("\n");
}

/** A forced drain replaces nothing before it stops. */
function forceText({ name, instances }: Preview): string {
  const ending = instances.filter(({ outcome }) => outcome !== "stays");
  const requests = ending.reduce((sum, one) => sum + one.in_flight, 0);
  return [
    `Host ${name}: ${ending.length} of ${instances.length} instances stop at once; running requests to cancel: ${requests}.`,
    ...ending.map((one) => `  ${instanceText(one)}, ${one.serving_elsewhere} serving elsewhere`),
  ].join("\n");
}

function instanceText(one: Preview["instances"][number]): string {
  return `${one.instance_id} ${one.deploy_name} of ${one.account.email}, ${counted(one.gpus, "GPU")}, ${counted(one.in_flight, "request")}`;
}

function proposalText(proposal: Proposal | null): string {
  if (!proposal) return "No moves would free more GPUs on one host.";
  const { gpu, node_id: id, largest_now: now, largest_after: after, moves } = proposal;
  return [
    `${counted(moves.length, "move")} would free ${after} ${gpu} on ${id} (largest free block now: ${now}):`,
    ...moves.map(
      (move) =>
        `  ${move.model_name} (${move.instance_id}, ${counted(move.gpus, "GPU")}) ${move.from} -> ${move.to}, gap ${move.gap_seconds} s`,
    ),
  ].join("\n");
}
