// `stoker deploy create`.
import { Option } from "commander";
import type { Responses } from "../../proto/gen/responses.ts";
import type { Api } from "../api.ts";
import { CliError, exitCode } from "../cli-error.ts";
import { type Command, deployGroup } from "../command.ts";
import { dryRunOption, endDryRun } from "../dry-run.ts";
import { readLocalFile } from "../local-file.ts";
import { atLeast, collect, seconds } from "../option-values.ts";
import type { Terminal } from "../terminal.ts";
import { type Deployment, describe, fitText, waitUntilDeployed } from "./deploy.ts";

type GpuOffer = Responses["GET /deploy/llm/gpu_availability"]["gpus"][number];

type DryRun = Responses["POST /deploy/llm/placement"];

export interface CreateFlags {
  readonly gpu?: string;
  readonly numGpus?: number;
  readonly maxBatchSize?: number;
  readonly hfRepo?: string;
  readonly hfRevision?: string;
  readonly hfTokenFile?: string;
  readonly min?: number;
  readonly max?: number;
  readonly inactiveShutdown?: number;
  readonly sleepAfter?: number;
  /** Milliseconds. */
  readonly targetTtft?: number;
  readonly targetQueue?: number;
  readonly context?: number;
  readonly engine?: string;
  readonly arg?: string[];
  readonly task?: string;
  readonly dryRun?: boolean;
  readonly wait: boolean;
  readonly timeout: number;
}

export function addDeployCreate(program: Command): void {
  const deploy = deployGroup(program);
  const run = async (terminal: Terminal, model: string, flags: CreateFlags): Promise<void> => {
    if (!flags.dryRun) return void (await create(terminal, model, flags));
    const found = await dryRun(terminal, model, flags);
    terminal.show(found, dryRunText);
    endDryRun(found.fits, found.repository);
  };
  addCreateOptions(
    deploy.command("create <model>").example("stoker deploy create Qwen/Qwen3-8B --gpu H100-80GB --max 4"),
    true,
  )
    .description("deploy a hub model by the given options and wait for it")
    .run(run);
  // Its old name for language models.
  addCreateOptions(deploy.command("create-llm <model>", { hidden: true }), false)
    .description("deploy a language model on chosen GPUs")
    .run(run);
}

/** Options of a new deployment. */
export const addCreateOptions = (command: Command, waits: boolean): Command =>
  command
    .option("--task <task>", "task, such as embeddings (default: language model)")
    .option("--gpu <type>", "GPU type (default: the cheapest available type with enough memory)")
    .option("--num-gpus <n>", "GPUs per instance", atLeast(1))
    .option("--max-batch-size <n>", "maximum number of concurrent requests per instance", atLeast(1))
    .option(
      "--hf-repo <address>",
      "weights: hub repository, s3://bucket/prefix, oci://registry/repository:tag or modelscope://owner/name (default: the model name)",
    )
    .option("--hf-revision <revision>", "branch, tag or commit")
    .option(
      "--hf-token-file <file>",
      "file with a hub token, ACCESS_KEY_ID:SECRET_ACCESS_KEY of s3://, or user:password of oci://",
    )
    .option("--min <n>", "minimum number of instances", atLeast(0))
    .option("--max <n>", "maximum number of instances", atLeast(1))
    .option("--inactive-shutdown <time>", "scale to zero after this time without requests; requires --min 0", seconds)
    .option(
      "--sleep-after <time>",
      "unload the model after this time without requests, until the next one; 0: never",
      seconds,
    )
    .option("--target-ttft <ms>", "add instances while the first token takes longer (p95)", atLeast(1))
    .option("--target-queue <ms>", "add instances while requests queue longer (p95)", atLeast(1))
    .option("--context <tokens>", "maximum context length", atLeast(1))
    .option("--engine <engine>", "engine (default: by the weights and the GPU)")
    .option("--arg <argument>", "engine argument (repeatable)", collect)
    .option(...dryRunOption("show engine, memory, price and the hosts without capacity"))
    .option("--wait", "wait and print each status change", waits)
    .option("--no-wait", "return immediately")
    .addOption(
      new Option("--timeout <time>", "maximum time to wait, such as 90s or 30m")
        .argParser(seconds)
        .default(1800, "30m"),
    );

/** Request that creates the deployment; with `/placement` after its path, that of the dry run. */
async function requestOf({ api }: Terminal, model: string, flags: CreateFlags) {
  const token = flags.hfTokenFile === undefined ? undefined : readLocalFile(flags.hfTokenFile).toString().trim();
  const placement = {
    num_gpus: flags.numGpus,
    max_batch_size: flags.maxBatchSize,
    settings: {
      min_instances: flags.min,
      max_instances: flags.max,
      inactive_shutdown: flags.inactiveShutdown,
      sleep_after_seconds: flags.sleepAfter,
      target_ttft_ms: flags.targetTtft,
      target_queue_ms: flags.targetQueue,
    },
  };
  if (flags.task !== undefined && (flags.arg ?? flags.engine ?? flags.context) !== undefined)
    throw new CliError("--task cannot be combined with --engine, --arg or --context.", exitCode.wrongUsage);
  return flags.task === undefined
    ? {
        path: "/deploy/llm",
        body: {
          model_name: model,
          gpu: flags.gpu ?? (await availableGpu(api, flags.hfRepo ?? model)),
          ...placement,
          engine: flags.engine,
          extra_args: flags.arg,
          standard_args: flags.context && { max_context_size: flags.context },
          // Without these flags the server resolves the name. A name without owner is sent, so that it is rejected at once.
          ...(((flags.hfRepo ?? flags.hfRevision ?? token) !== undefined || !model.includes("/")) && {
            hf: { repo: flags.hfRepo ?? model, revision: flags.hfRevision, token },
          }),
        },
      }
    : {
        path: "/deploy/hf/",
        body: {
          model_name: model,
          repo: flags.hfRepo,
          task: flags.task,
          revision: flags.hfRevision,
          token,
          gpu: flags.gpu,
          ...placement,
        },
      };
}

/** Whether the deployment would fit now. */
export async function dryRun(terminal: Terminal, model: string, flags: CreateFlags): Promise<DryRun> {
  const { path, body } = await requestOf(terminal, model, flags);
  return terminal.api.call<DryRun>("POST", `${path.replace(/\/$/, "")}/placement`, body);
}

/** Creates the deployment and, with `wait`, follows it until it is deployed. */
export async function create(terminal: Terminal, model: string, flags: CreateFlags): Promise<Deployment> {
  const { path, body } = await requestOf(terminal, model, flags);
  const created = await terminal.api.call<Deployment>("POST", path, body);
  const hint = await missingGpuText(terminal.api, created);
  if (hint !== undefined) terminal.progress(hint);
  const last = flags.wait ? await waitUntilDeployed(terminal, created, flags.timeout) : created;
  terminal.show(last, describe);
  if (!flags.wait)
    terminal.progress(
      `${hint === undefined ? "The deployment is starting. " : ""}Check its status: \`stoker deploy get ${last.deploy_id}\``,
    );
  return last;
}

/** Text if no host has the GPUs of the deployment, free or in use. Never throws: the deployment exists, and the caller needs its id. */
async function missingGpuText(api: Api, { deploy_id: id, config, instances }: Deployment) {
  if (!config || config.num_gpus === 0 || (instances?.running ?? 0) > 0) return undefined;
  const configs = (await gpuOffers(api).catch(() => undefined))?.map((offer) => offer.gpu_config);
  if (!configs) return undefined;
  const wanted = `${config.num_gpus}x${config.gpu}`;
  if (configs.includes(wanted)) return undefined;
  const existing = configs.length === 0 ? "No hosts are connected." : `Hosts have ${configs.join(", ")}.`;
  return (
    `No host has ${wanted}, so the deployment waits for one. ${existing} ` +
    `Delete it (\`stoker deploy delete ${id}\`) and choose another type with --gpu, or ask your operator for a host.`
  );
}

/** GPU configurations with prices; the server recommends some for the weights of `source`. */
export async function gpuOffers(api: Api, source?: string): Promise<readonly GpuOffer[]> {
  const query = source === undefined ? "" : `?${new URLSearchParams({ source })}`;
  const { gpus } = await api
    .call<{ gpus: readonly GpuOffer[] }>("GET", `/deploy/llm/gpu_availability${query}`)
    .catch((error: unknown) => {
      if (error instanceof CliError && error.exitCode === exitCode.notFound) return { gpus: [] };
      throw error;
    });
  return gpus;
}

/** Cheapest available GPU type, preferring types known to hold the weights. */
async function availableGpu(api: Api, source: string): Promise<string> {
  const gpus = await gpuOffers(api, source);
  const free = gpus.filter((gpu) => gpu.available && gpu.gpu_config.startsWith("1x"));
  const cheapest = free.toSorted((a, b) => a.usd_per_hour - b.usd_per_hour)[0];
  return (free.find((gpu) => gpu.recommended) ?? cheapest)?.gpu_config.slice(2) ?? "other";
}

const unknownText =
  "Unknown: the GPUs are free, but the model hub cannot be reached, so the repository could not be checked.";

function dryRunText({ engine, memory_bytes: bytes, usd_per_hour: usd, ...fit }: DryRun): string {
  const memory = bytes > 0 ? `about ${(bytes / 1024 ** 3).toFixed(1)} GiB per instance` : "memory unknown";
  if (fit.fits && fit.repository === "unknown")
    return `${unknownText} ${engine}, ${memory}, ${usd.toFixed(2)} USD per hour. Nothing was changed.`;
  return fitText(fit, `: ${engine}, ${memory}, ${usd.toFixed(2)} USD per hour`);
}
