import { type Command, Option } from "commander";
import type { Api } from "../api.ts";
import { CliError, exitCode } from "../cli-error.ts";
import { type Deployment, statusText, waitUntilDeployed } from "../deployment.ts";
import { readLocalFile } from "../local-file.ts";
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
  /** Of `create`. */
  readonly task?: string;
  /** Of `create-llm`. */
  readonly dryRun?: boolean;
  readonly wait: boolean;
  readonly timeout: number;
}

interface Stats {
  readonly requests: number;
  readonly errors: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly total_amount: number;
  readonly avg_time: number;
  readonly avg95_time: number;
}

interface GpuOffer {
  readonly gpu_config: string;
  readonly usd_per_hour: number;
  readonly available: boolean;
  readonly recommended: boolean;
}

interface DryRun {
  readonly fits: boolean;
  readonly engine: string;
  readonly memory_bytes: number;
  readonly usd_per_hour: number;
  readonly refused: readonly { readonly host: string; readonly why: string }[];
}

export function addDeploy(program: Command): void {
  const deploy = program.command("deploy").description("dedicated deployments");
  deploy.addHelpText("after", "\nWhat the instances of a deployment write: stoker log <id>");
  const create = "deploy a hub model with sensible defaults and wait for it";
  addCreate(deploy.command("create <model>").description(create)).option(
    "--task <task>",
    "what it does, e.g. embeddings; default: a language model",
  );
  addCreate(deploy.command("create-llm <model>").description("deploy a language model on chosen GPUs")).option(
    "--dry-run",
    "only say whether it fits, where not and why, and what it would cost",
  );
  deploy
    .command("list")
    .description("deployments, the newest first")
    .option("--state <status>", "active (the default), inactive, pending, any, or a status")
    .option("--model <name>", "only this model")
    .action(async (flags: { state?: string; model?: string }, command: Command) => list(openTerminal(command), flags));
  deploy
    .command("info <id>")
    .description("one deployment")
    .action(async (id: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      terminal.show(await terminal.api.call<Deployment>("GET", `/deploy/${encodeURIComponent(id)}`), describe);
    });
  addDeployUpdate(deploy);
  deploy
    .command("stats <id>")
    .description("what requests on a deployment came to")
    .option("--from <time>", "unix seconds, or now-5h (s, m, h, d, w, M)", "now-5h")
    .option("--to <time>", "unix seconds or now", "now")
    .action(async (id: string, flags: { from: string; to: string }, command: Command) => {
      const terminal = openTerminal(command);
      const path = `/deploy/${encodeURIComponent(id)}/stats?${new URLSearchParams({ from: flags.from, to: flags.to })}`;
      terminal.show(await terminal.api.call<Stats>("GET", path), statsText);
    });
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

function addCreate(command: Command): Command {
  const waits = command.name() === "create";
  return command
    .option("--gpu <type>", "GPU type; default: the cheapest that is free and holds it")
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
    .addOption(
      new Option("--timeout <time>", "how long to wait, e.g. 90s or 30m").argParser(seconds).default(1800, "30m"),
    )
    .action(async (model: string, flags: CreateFlags, self: Command) => create(openTerminal(self), model, flags));
}

async function create(terminal: Terminal, model: string, flags: CreateFlags): Promise<void> {
  const token = flags.hfTokenFile === undefined ? undefined : readLocalFile(flags.hfTokenFile).toString().trim();
  const place = {
    num_gpus: flags.numGpus,
    max_batch_size: flags.maxBatchSize,
    settings: { min_instances: flags.min, max_instances: flags.max },
  };
  if (flags.task !== undefined && (flags.arg !== undefined || flags.hfRepo !== undefined))
    throw new CliError(
      "--task goes with neither --arg nor --hf-repo: the model is its repository",
      exitCode.wrongUsage,
    );
  const [path, body] =
    flags.task === undefined
      ? ([
          "/deploy/llm",
          {
            ...{
              model_name: model,
              gpu: flags.gpu ?? (await freeGpu(terminal.api, flags.hfRepo ?? model)),
              ...place,
              extra_args: flags.arg,
            },
            // Without any of them the name says it, which may be a model whose files are known; one without an owner is refused at once.
            ...(((flags.hfRepo ?? flags.hfRevision ?? token) !== undefined || !model.includes("/")) && {
              hf: { repo: flags.hfRepo ?? model, revision: flags.hfRevision, token },
            }),
          },
        ] as const)
      : ([
          "/deploy/hf/",
          { model_name: model, task: flags.task, revision: flags.hfRevision, token, gpu: flags.gpu, ...place },
        ] as const);
  if (flags.dryRun) {
    const found = await terminal.api.call<DryRun>("POST", `${path}/placement`, body);
    return terminal.show(found, dryRunText);
  }
  const created = await terminal.api.call<Deployment>("POST", path, body);
  const last = flags.wait ? await waitUntilDeployed(terminal, created, flags.timeout) : created;
  terminal.show(last, describe);
  if (!flags.wait) terminal.progress(`It starts without you: stoker deploy info ${last.deploy_id} says how far it is.`);
}

/** The cheapest that is free, one that is known to hold the weights before others. */
async function freeGpu(api: Api, source: string): Promise<string> {
  const { gpus } = await api
    .call<{ gpus: readonly GpuOffer[] }>("GET", `/deploy/llm/gpu_availability?${new URLSearchParams({ source })}`)
    .catch((error: unknown) => {
      if (error instanceof CliError && error.exitCode === exitCode.notFound) return { gpus: [] };
      throw error;
    });
  const free = gpus.filter((gpu) => gpu.available && gpu.gpu_config.startsWith("1x"));
  const cheapest = free.toSorted((a, b) => a.usd_per_hour - b.usd_per_hour)[0];
  return (free.find((gpu) => gpu.recommended) ?? cheapest)?.gpu_config.slice(2) ?? "other";
}

const states: Readonly<Record<string, readonly string[]>> = {
  active: ["initializing", "downloading", "deploying", "deployed", "updating", "stopping"],
  inactive: ["stopped", "failed", "deleted"],
  pending: ["initializing", "downloading", "deploying"],
};

async function list(terminal: Terminal, flags: { state?: string; model?: string }): Promise<void> {
  // Without a wish all are asked for, so that what is left out can be told.
  const asked = flags.state === undefined || flags.state === "any" ? undefined : flags.state;
  const status = asked && `?status=${encodeURIComponent(states[asked]?.join(",") ?? asked)}`;
  const all = await terminal.api.call<Deployment[]>("GET", `/deploy/list${status ?? ""}`);
  const ofModel = flags.model === undefined ? all : all.filter((one) => one.model_name === flags.model);
  const shown = flags.state ? ofModel : ofModel.filter((one) => states["active"]?.includes(one.status));
  terminal.rows(shown, ["ID", "MODEL", "STATUS", "GPU"], (one) => [
    one.deploy_id,
    one.model_name,
    statusText(one),
    one.config ? `${one.config.num_gpus}x${one.config.gpu}` : "",
  ]);
  const hidden = ofModel.filter((one) => !shown.includes(one));
  if (hidden.length > 0) terminal.progress(`Not shown: ${counted(hidden)}; --state any or inactive lists them.`);
}

/** `2 failed, 5 deleted` */
const counted = (deployments: readonly Deployment[]): string =>
  [...Map.groupBy(deployments, ({ status }) => status)]
    .map(([status, those]) => `${those.length} ${status}`)
    .join(", ");

function describe(one: Deployment): string {
  const lines = [
    ["id", one.deploy_id],
    ["model", one.model_name],
    ["status", statusText(one)],
    ["why", one.fail_reason],
    ["trouble", one.progress?.trouble ?? ""],
    ["update", one.update_error ? `taken back: ${one.update_error}` : ""],
    ["rollout", rolloutText(one)],
    ...(one.pending_reasons ?? []).map(({ host, why }) => ["waits", `${host}: ${why}`] as const),
    [
      "gpu",
      one.config ? `${one.config.num_gpus}x${one.config.gpu}, ${mostAtOnce(one, one.config.max_batch_size)}` : "",
    ],
    ["weights", one.config?.weights?.repo ?? ""],
    ["scale", scaleText(one)],
    ["settings", settingsText(one)],
    ["args", (one.extra_args ?? []).join(" ")],
    ["created", one.created_at],
  ] as const satisfies readonly (readonly [string, string])[];
  return lines
    .filter(([, value]) => value !== "")
    .map(([name, value]) => `${name.padEnd(8)} ${value}`)
    .join("\n");
}

/** What an instance takes, whichever of the two fields says it. */
const mostAtOnce = ({ standard_args: set }: Deployment, batch: number): string =>
  `at most ${set?.[concurrency] ?? batch} requests at once per instance`;

function scaleText({ settings }: Deployment): string {
  if (!settings) return "";
  const { min_instances: min, max_instances: max, inactive_shutdown: idle } = settings;
  const sleeps = idle == null ? "" : `, asleep after ${idle} s without requests`;
  return `${min} to ${max} instances${sleeps}`;
}

const concurrency = "max_concurrent_requests";

/** The other settings that were given, by their names in the API. */
const settingsText = ({ standard_args: set = {} }: Deployment): string =>
  Object.entries(set)
    .filter(([name, value]) => name !== concurrency && value !== null)
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");

function dryRunText({ fits, engine, memory_bytes: bytes, usd_per_hour: usd, refused }: DryRun): string {
  const memory = bytes > 0 ? `about ${(bytes / 1024 ** 3).toFixed(1)} GiB per instance` : "memory unknown";
  return [
    `${fits ? "It fits" : "It does not fit now"}: ${engine}, ${memory}, ${usd.toFixed(2)} USD per hour. Nothing was deployed.`,
    ...refused.map(({ host, why }) => `  ${host}: ${why}`),
  ].join("\n");
}

function statsText(stats: Stats): string {
  return [
    ["requests", `${stats.requests}, ${stats.errors} failed`],
    ["tokens", `${stats.input_tokens} in, ${stats.output_tokens} out`],
    ["time", `${Math.round(stats.avg_time)} ms on average, ${Math.round(stats.avg95_time)} ms for 95 %`],
    ["cost", `${(stats.total_amount / 100).toFixed(4)} USD`],
  ]
    .map(([name, value]) => `${name?.padEnd(8)} ${value}`)
    .join("\n");
}

/** Empty when all that serve serve what is wanted. */
function rolloutText({ rollout }: Deployment): string {
  if (!rollout || rollout.outdated === 0) return "";
  return `${rollout.up_to_date} up to date, ${rollout.outdated} still as before, ${rollout.booting} starting`;
}
