import { readFileSync } from "node:fs";
import type { Command } from "commander";
import type { Api } from "../api.ts";
import { CliError, exitCode } from "../cli-error.ts";
import { type Deployment, statusText, waitUntilDeployed } from "../deployment.ts";
import { atLeast, collect, seconds } from "../option-values.ts";
import { openTerminal, type Terminal } from "../terminal.ts";
import { addDeployUpdate } from "./deploy-update.ts";

interface CreateFlags {
  readonly gpu?: string;
  readonly numGpus?: number;
  readonly maxBatchSize?: number;
  readonly hfRepo?: string;
  readonly hfRevision?: string;
  readonly hfTokenFile?: string;
  readonly min?: number;
  readonly max?: number;
  readonly arg?: string[];
  readonly wait: boolean;
  readonly timeout: number;
}

export function addDeploy(program: Command): void {
  const deploy = program.command("deploy").description("dedicated deployments");
  addCreate(deploy.command("create <model>").description("deploy a hub model with sensible defaults and wait for it"));
  addCreate(deploy.command("create-llm <model>").description("deploy a language model on chosen GPUs"));
  deploy
    .command("list")
    .description("deployments, the newest first")
    .option("--state <status>", "active, inactive, pending, any, or a status", "active")
    .option("--model <name>", "only this model")
    .action(async (flags: { state: string; model?: string }, command: Command) => list(openTerminal(command), flags));
  deploy
    .command("info <id>")
    .description("one deployment")
    .action(async (id: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      terminal.show(await terminal.api.call<Deployment>("GET", `/deploy/${encodeURIComponent(id)}`), describe);
    });
  addDeployUpdate(deploy);
  const verbs = [
    ["delete", "DELETE", "", "deleted"],
    ["stop", "POST", "/stop", "stopping"],
    ["start", "POST", "/start", "starting"],
  ] as const;
  for (const [verb, method, suffix, said] of verbs) {
    deploy
      .command(`${verb} <id>`)
      .description(`${verb} a deployment`)
      .action(async (id: string, _flags: object, command: Command) => {
        const terminal = openTerminal(command);
        terminal.show(
          await terminal.api.call(method, `/deploy/${encodeURIComponent(id)}${suffix}`),
          () => `${id} ${said}`,
        );
      });
  }
}

function addCreate(command: Command): void {
  const waits = command.name() === "create";
  command
    .option("--gpu <type>", "GPU type; default: the first that is free")
    .option("--num-gpus <n>", "GPUs per instance", atLeast(1))
    .option("--max-batch-size <n>", "most requests at once per instance", atLeast(1))
    .option("--hf-repo <repo>", "weights repository; default: the model's own name")
    .option("--hf-revision <revision>", "branch, tag or commit")
    .option("--hf-token-file <file>", "file with the hub token")
    .option("--min <n>", "least number of instances", atLeast(0))
    .option("--max <n>", "most instances", atLeast(1))
    .option("--arg <argument>", "extra engine argument (repeatable)", collect)
    .option("--wait", "print each change until it is deployed or failed", waits)
    .option("--no-wait", "return as soon as it is accepted")
    .option("--timeout <time>", "how long to wait, e.g. 90s or 30m", seconds, 1800)
    .action(async (model: string, flags: CreateFlags, self: Command) => create(openTerminal(self), model, flags));
}

async function create(terminal: Terminal, model: string, flags: CreateFlags): Promise<void> {
  const created = await terminal.api.call<Deployment>("POST", "/deploy/llm", {
    model_name: model,
    gpu: flags.gpu ?? (await freeGpu(terminal.api)),
    num_gpus: flags.numGpus,
    max_batch_size: flags.maxBatchSize,
    hf: {
      repo: flags.hfRepo ?? model,
      revision: flags.hfRevision,
      token: flags.hfTokenFile === undefined ? undefined : readFileSync(flags.hfTokenFile, "utf8").trim(),
    },
    settings: { min_instances: flags.min, max_instances: flags.max },
    extra_args: flags.arg,
  });
  const last = flags.wait ? await waitUntilDeployed(terminal, created, flags.timeout) : created;
  terminal.show(last, describe);
}

async function freeGpu(api: Api): Promise<string> {
  const { gpus } = await api
    .call<{ gpus: { gpu_config: string; available: boolean }[] }>("GET", "/deploy/llm/gpu_availability")
    .catch((error: unknown) => {
      if (error instanceof CliError && error.exitCode === exitCode.notFound) return { gpus: [] };
      throw error;
    });
  const free = gpus.find((gpu) => gpu.available && gpu.gpu_config.startsWith("1x"));
  return free?.gpu_config.slice(2) ?? "other";
}

async function list(terminal: Terminal, flags: { state: string; model?: string }): Promise<void> {
  const states: Record<string, string> = {
    active: "initializing,downloading,deploying,deployed,updating,stopping",
    inactive: "stopped,failed,deleted",
    pending: "initializing,downloading,deploying",
  };
  const status = flags.state === "any" ? "" : `?status=${encodeURIComponent(states[flags.state] ?? flags.state)}`;
  const all = await terminal.api.call<Deployment[]>("GET", `/deploy/list${status}`);
  const chosen = flags.model === undefined ? all : all.filter((one) => one.model_name === flags.model);
  terminal.rows(chosen, ["ID", "MODEL", "STATUS", "GPU"], (one) => [
    one.deploy_id,
    one.model_name,
    statusText(one),
    one.config ? `${one.config.num_gpus}x${one.config.gpu}` : "",
  ]);
}

function describe(one: Deployment): string {
  const lines = [
    ["id", one.deploy_id],
    ["model", one.model_name],
    ["status", statusText(one)],
    ["why", one.fail_reason],
    ["update", one.update_error ? `taken back: ${one.update_error}` : ""],
    ["rollout", rolloutText(one)],
    ...(one.pending_reasons ?? []).map(({ host, why }) => ["waits", `${host}: ${why}`] as const),
    ["gpu", one.config ? `${one.config.num_gpus}x${one.config.gpu}, batch ${one.config.max_batch_size}` : ""],
    ["weights", one.config?.weights?.repo ?? ""],
    ["scale", one.settings ? `${one.settings.min_instances} to ${one.settings.max_instances} instances` : ""],
    ["created", one.created_at],
  ] as const satisfies readonly (readonly [string, string])[];
  return lines
    .filter(([, value]) => value !== "")
    .map(([name, value]) => `${name.padEnd(8)} ${value}`)
    .join("\n");
}

/** Empty when all that serve serve what is wanted. */
function rolloutText({ rollout }: Deployment): string {
  if (!rollout || rollout.outdated === 0) return "";
  return `${rollout.up_to_date} up to date, ${rollout.outdated} still as before, ${rollout.booting} starting`;
}
