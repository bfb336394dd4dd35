import { InvalidArgumentError, Option } from "commander";
import type { Responses } from "../../proto/gen/responses.ts";
import { CliError, exitCode } from "../cli-error.ts";
import { type Command, deployGroup } from "../command.ts";
import { dryRunOption, endDryRun } from "../dry-run.ts";
import { atLeast, collect, seconds } from "../option-values.ts";
import { poll } from "../poll.ts";
import { isoTime, type Terminal, utcTime } from "../terminal.ts";

interface UpdateFlags {
  readonly min?: number;
  readonly max?: number;
  /** Milliseconds; 0 removes it. */
  readonly targetTtft?: number;
  readonly targetQueue?: number;
  readonly schedule?: readonly Schedule[];
  readonly withoutSchedules?: boolean;
  readonly inactiveShutdown?: number;
  readonly sleepAfter?: number;
  readonly concurrency?: number;
  readonly arg?: readonly string[];
  readonly wait: boolean;
  readonly timeout: number;
}

type Stats = Responses["GET /deploy/{deploy_id}/stats"];

type Fit = Responses["GET /deploy/{deploy_id}/placement"];

export function addDeploy(program: Command): void {
  const deploy = deployGroup(program);
  deploy
    .command("list")
    .description("list deployments, newest first")
    .example("stoker deploy list --state any")
    .option("--state <status>", "active (the default), inactive, pending, any, or a status")
    .option("--model <name>", "only deployments of this model")
    .run(async (terminal, flags: { state?: string; model?: string }) => list(terminal, flags));
  deploy
    .command("get <id>")
    .alias("info")
    .description("show a deployment")
    .example("stoker deploy get DpM4BkrjEspUwmTa")
    .run(async (terminal, id: string) => {
      terminal.show(await terminal.api.call<Deployment>("GET", deploymentPath(id)), describe);
    });
  addUpdate(deploy);
  addVersions(deploy);
  deploy
    .command("stats <id>")
    .description("show requests, tokens and cost of a deployment")
    .example("stoker deploy stats DpM4BkrjEspUwmTa --from now-1d")
    .option("--from <time>", "start, Unix seconds or relative such as now-5h (s, m, h, d, w, M)", "now-5h")
    .option("--to <time>", "end, Unix seconds or now", "now")
    .run(async (terminal, id: string, flags: { from: string; to: string }) => {
      const path = `${deploymentPath(id)}/stats?${new URLSearchParams({ from: flags.from, to: flags.to })}`;
      terminal.show(await terminal.api.call<Stats>("GET", path), statsText);
    });
  deploy
    .command("delete <id>")
    .description("delete a deployment")
    .example("stoker deploy delete DpM4BkrjEspUwmTa")
    .confirm(async ({ api }, id: string) => {
      const one = await api.call<Deployment>("GET", deploymentPath(id));
      return `Delete ${id} (${one.model_name}, ${statusText(one)})? Requests to it fail from then on.`;
    })
    .run(async (terminal, id: string) => {
      terminal.show(await terminal.api.call("DELETE", deploymentPath(id)), () => `${id} deleted`);
    });
  deploy
    .command("stop <id>")
    .description("stop a deployment; requests to it fail until it is started")
    .example("stoker deploy stop DpM4BkrjEspUwmTa")
    .run(async (terminal, id: string) => {
      terminal.show(await terminal.api.call("POST", `${deploymentPath(id)}/stop`), () => `${id} is stopping`);
    });
  deploy
    .command("start <id>")
    .description("start a stopped deployment")
    .example("stoker deploy start DpM4BkrjEspUwmTa --dry-run")
    .option(...dryRunOption("show whether one more instance fits, and the hosts without capacity"))
    .run(async (terminal, id: string, { dryRun }: { dryRun?: boolean }) => {
      if (dryRun) {
        const found = await terminal.api.call<Fit>("GET", `${deploymentPath(id)}/placement`);
        terminal.show(found, (fit) => fitText(fit));
        return endDryRun(found.fits);
      }
      terminal.show(await terminal.api.call("POST", `${deploymentPath(id)}/start`), () => `${id} is starting`);
    });
}

const deploymentPath = (id: string): string => `/deploy/${encodeURIComponent(id)}`;

function addVersions(deploy: Command): void {
  deploy
    .command("versions <id>")
    .description("list the arguments that a deployment has run with, the newest first")
    .example("stoker deploy versions DpM4BkrjEspUwmTa")
    .run(async (terminal, id: string) => {
      const answer = await terminal.api.call<Responses["GET /deploy/{deploy_id}/versions"]>(
        "GET",
        `${deploymentPath(id)}/versions`,
      );
      if (terminal.isStructured) return terminal.show(answer, String);
      terminal.rows(answer.versions, {
        VERSION: "version",
        STATE: ({ is_desired: isDesired, is_serving: isServing }) =>
          [isDesired && "present", isServing && !isDesired && "serving"].filter(Boolean).join(" "),
        CREATED: (one) => isoTime(one.created_at),
        ARGUMENTS: (one) => one.extra_args.join(" "),
        SETTINGS: (one) =>
          Object.entries(one.standard_args)
            .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
            .join(" "),
      });
    });
  deploy
    .command("rollback <id>")
    .description("return to the arguments of an earlier version; instances are replaced one by one")
    .example("stoker deploy rollback DpM4BkrjEspUwmTa --to 3")
    .option(
      "--to <version>",
      "version of `stoker deploy versions`; default: the one before the present one",
      atLeast(1),
    )
    .run(async (terminal, id: string, flags: { readonly to?: number }) => {
      const answer = await terminal.api.call<Responses["POST /deploy/{deploy_id}/rollback"]>(
        "POST",
        `${deploymentPath(id)}/rollback`,
        { version: flags.to },
      );
      terminal.show(
        answer,
        ({ version }) => `${id} returns to version ${version}. Watch it with stoker deploy get ${id}.`,
      );
    });
}

function addUpdate(deploy: Command): void {
  deploy
    .command("update <id>")
    .description("change scale or arguments; instances are replaced one by one")
    .example("stoker deploy update DpM4BkrjEspUwmTa --min 0 --max 4")
    .option("--min <n>", "minimum number of instances; 0 scales to zero while idle", atLeast(0))
    .option("--max <n>", "maximum number of instances", atLeast(1))
    .option(
      "--inactive-shutdown <time>",
      "scale to zero after this time without requests; requires --min 0; 0: default",
      seconds,
    )
    .option(
      "--sleep-after <time>",
      "unload the model after this time without requests; only if set at creation",
      seconds,
    )
    .option("--target-ttft <ms>", "add instances while the first token takes longer (p95); 0 removes it", atLeast(0))
    .option("--target-queue <ms>", "add instances while requests queue longer (p95); 0 removes it", atLeast(0))
    .option(
      "--schedule <rule>",
      'minimum at local times, such as "mon-fri 08:00-18:00 Europe/Berlin min 2"; replaces all (repeatable)',
      collectSchedule,
    )
    .option("--without-schedules", "remove all schedules")
    .option(
      "--concurrency <n>",
      "maximum number of concurrent requests per instance; raising it restarts instances",
      atLeast(1),
    )
    .option("--arg <argument>", "engine argument; replaces all existing ones (repeatable)", collect)
    .option("--no-wait", "return immediately")
    .addOption(
      new Option("--timeout <time>", "maximum time to wait, such as 90s or 30m")
        .argParser(seconds)
        .default(1800, "30m"),
    )
    .run((terminal, id: string, flags: UpdateFlags) => update(terminal, id, flags));
}

async function update(terminal: Terminal, id: string, flags: UpdateFlags): Promise<void> {
  const path = deploymentPath(id);
  const settings = {
    min_instances: flags.min,
    max_instances: flags.max,
    inactive_shutdown: flags.inactiveShutdown === 0 ? null : flags.inactiveShutdown,
    sleep_after_seconds: flags.sleepAfter,
    target_ttft_ms: flags.targetTtft === 0 ? null : flags.targetTtft,
    target_queue_ms: flags.targetQueue === 0 ? null : flags.targetQueue,
    schedules: flags.withoutSchedules ? null : flags.schedule,
  };
  const isScaled = Object.values(settings).some((value) => value !== undefined);
  const { concurrency } = flags;
  if (!isScaled && flags.arg === undefined && concurrency === undefined)
    throw new CliError(
      "Nothing to change. Give --min, --max, --inactive-shutdown, --sleep-after, --target-ttft, --target-queue, --schedule, --concurrency or --arg.",
      exitCode.wrongUsage,
    );
  // PUT replaces the whole object, so send the other arguments unchanged.
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
  if (flags.wait && last.update_error) throw new CliError(`Update rolled back: ${last.update_error}`, exitCode.failed);
  terminal.show(last, () => `${id} ${statusText(last)}`);
}

const states: Readonly<Record<string, readonly string[]>> = {
  active: ["initializing", "downloading", "deploying", "deployed", "updating", "stopping"],
  inactive: ["stopped", "failed", "deleted"],
  pending: ["initializing", "downloading", "deploying"],
};

async function list(terminal: Terminal, flags: { state?: string; model?: string }): Promise<void> {
  // Without --state read all, to report how many are hidden.
  const requested = flags.state === undefined || flags.state === "any" ? undefined : flags.state;
  const status = requested && `?status=${encodeURIComponent(states[requested]?.join(",") ?? requested)}`;
  const all = await terminal.api.call<Deployment[]>("GET", `/deploy/list${status ?? ""}`);
  const ofModel = flags.model === undefined ? all : all.filter((one) => one.model_name === flags.model);
  const shown = flags.state ? ofModel : ofModel.filter((one) => states["active"]?.includes(one.status));
  terminal.rows(
    shown,
    {
      ID: "deploy_id",
      MODEL: "model_name",
      STATUS: (one) => statusText(one),
      GPU: (one) => (one.config ? `${one.config.num_gpus}x${one.config.gpu}` : ""),
    },
    {
      empty: "No deployments. Deploy a model: `stoker deploy NAME`. Models to deploy: `stoker model search`",
      wide: {
        SCALE: (one) => (one.settings ? `${one.settings.min_instances}-${one.settings.max_instances}` : ""),
        TASK: (one) => one.task ?? "",
        WEIGHTS: (one) => one.config?.weights.repo ?? "",
        CREATED: (one) => utcTime(one.created_at),
        REASON: (one) => one.fail_reason || one.pending_reasons?.[0]?.why || "",
      },
    },
  );
  const hidden = ofModel.filter((one) => !shown.includes(one));
  if (hidden.length > 0) terminal.progress(`Not shown: ${counted(hidden)}. Use --state any or inactive to list them.`);
}

/** `2 failed, 5 deleted` */
const counted = (deployments: readonly Deployment[]): string =>
  [...Map.groupBy(deployments, ({ status }) => status)]
    .map(([status, those]) => `${those.length} ${status}`)
    .join(", ");

/** Meaning of the GPU type `other` on the hosts of the server. */
export const otherGpu = (devices: readonly string[] = []): string => devices.join(" or ") || "GPU of unknown type";

export function describe(one: Deployment): string {
  const lines = [
    ["id", one.deploy_id],
    ["model", one.model_name],
    ["status", statusText(one)],
    ["reason", one.fail_reason],
    ["warning", one.progress?.trouble ?? ""],
    ["update", one.update_error ? `rolled back: ${one.update_error}` : ""],
    ["rollout", rolloutText(one)],
    ...(one.pending_reasons ?? []).map(({ host, why }) => ["pending", `${host}: ${why}`] as const),
    [
      "gpu",
      one.config
        ? `${one.config.num_gpus}x${one.config.gpu}${one.config.gpu === "other" ? ` (${otherGpu(one.devices)})` : ""}, ${maxConcurrencyText(one, one.config.max_batch_size)}`
        : "",
    ],
    ["weights", one.config?.weights?.repo ?? ""],
    ["price", priceText(one)],
    ["scale", scaleText(one)],
    ...scheduleTexts(one).map((text) => ["schedule", text] as const),
    ["settings", settingsText(one)],
    ["args", (one.extra_args ?? []).join(" ")],
    ["created", one.created_at],
  ] as const satisfies readonly (readonly [string, string])[];
  return lines
    .filter(([, value]) => value !== "")
    .map(([name, value]) => `${name.padEnd(8)} ${value}`)
    .join("\n");
}

/** Concurrency limit of an instance, from either of the two fields. */
const maxConcurrencyText = ({ standard_args: set }: Deployment, batch: number): string =>
  `at most ${set?.[concurrency] ?? batch} concurrent requests per instance`;

/** Empty without a price, and of servers that send none. */
function priceText({ price, settings }: Deployment): string {
  if (!price || price.usd_per_hour + price.usd_per_hour_asleep === 0) return "";
  const asleep = settings && settings.sleep_after_seconds > 0 ? `, ${usdText(price.usd_per_hour_asleep)} asleep` : "";
  return `${usdText(price.usd_per_hour)} USD per hour and instance${asleep}`;
}

/** At least two decimals, more for small amounts. */
const usdText = (usd: number): string =>
  usd.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 6, useGrouping: false });

function scaleText({ settings }: Deployment): string {
  if (!settings) return "";
  const { min_instances: min, max_instances: max, inactive_shutdown: idle } = settings;
  const sleeps = idle == null ? "" : `, scales to zero after ${idle} s without requests`;
  const { target_ttft_ms: ttft, target_queue_ms: queue } = settings;
  const targets = [
    ...(ttft === undefined ? [] : [`, first token within ${ttft} ms (p95)`]),
    ...(queue === undefined ? [] : [`, queue time within ${queue} ms (p95)`]),
  ];
  const rests =
    settings.sleep_after_seconds > 0 ? `, asleep after ${settings.sleep_after_seconds} s without requests` : "";
  return `${min} to ${max} instances${sleeps}${rests}${targets.join("")}`;
}

type Schedule = NonNullable<NonNullable<Deployment["settings"]>["schedules"]>[number];

const scheduleTexts = ({ settings }: Deployment): readonly string[] =>
  (settings?.schedules ?? []).map(
    ({ days, from, to, time_zone: zone, min_instances: min }) => `${days.join(",")} ${from}-${to} ${zone} min ${min}`,
  );

const weekdays = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"] as const;
const scheduleForm = /^(\S+) +(\d\d:\d\d)-(\d\d:\d\d) +(\S+) +min +(\d+)$/;

/** Reads `DAYS FROM-TO ZONE min N`; days are names or ranges, separated by commas. */
function readSchedule(text: string): Schedule {
  const [, days = "", from = "", to = "", zone = "", min = ""] = scheduleForm.exec(text.trim()) ?? [];
  const named = days.split(",").flatMap((part) => {
    const [first = "", last = first] = part.split("-");
    const [start, end] = [first, last].map((day) => (weekdays as readonly string[]).indexOf(day));
    if (start === undefined || end === undefined || start < 0 || end < 0) return [undefined];
    const count = ((end - start + 7) % 7) + 1;
    return Array.from({ length: count }, (_, n) => weekdays[(start + n) % 7]);
  });
  const known = named.filter((day) => day !== undefined);
  if (min === "" || known.length < named.length)
    throw new InvalidArgumentError(
      'A schedule has the form "DAYS FROM-TO ZONE min N", such as "mon-fri 08:00-18:00 Europe/Berlin min 2".',
    );
  return {
    days: [...new Set(known)] as unknown as Schedule["days"],
    from,
    to,
    time_zone: zone,
    min_instances: Number(min),
  };
}

const collectSchedule = (text: string, before: readonly Schedule[] = []) => [...before, readSchedule(text)];

const concurrency = "max_concurrent_requests";

/** Other standard arguments, by their API names. */
const settingsText = ({ standard_args: set = {} }: Deployment): string =>
  Object.entries(set)
    .filter(([name, value]) => name !== concurrency && value !== null)
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");

export const fitText = ({ fits, refused }: Fit, more = ""): string =>
  [
    `${fits ? "Fits" : "Does not fit now"}${more}. Nothing was changed.`,
    ...(fits || refused.length > 0 ? [] : ["  No hosts are connected. Operators add one: `stoker node token create`"]),
    ...refused.map(({ host, why }) => `  ${host}: ${why}`),
  ].join("\n");

function statsText(stats: Stats): string {
  return [
    ["requests", `${stats.requests}, ${stats.errors} failed`],
    ["tokens", `${stats.input_tokens} in, ${stats.output_tokens} out`],
    ["time", `${Math.round(stats.avg_time)} ms average, ${Math.round(stats.avg95_time)} ms p95`],
    ["cost", `${(stats.total_amount / 100).toFixed(4)} USD`],
  ]
    .map(([name, value]) => `${name?.padEnd(8)} ${value}`)
    .join("\n");
}

/** Empty if all instances are up to date. */
function rolloutText({ rollout }: Deployment): string {
  if (!rollout || rollout.outdated === 0) return "";
  return `${rollout.up_to_date} up to date, ${rollout.outdated} outdated, ${rollout.booting} starting`;
}

type Shown = Responses["GET /deploy/{deploy_id}"];

/** The deployment record as the API sends it. Older servers omit the fields that were added later. */
export type Deployment = Partial<Shown> &
  Pick<Shown, "deploy_id" | "model_name" | "status" | "fail_reason" | "created_at">;

/** `deployed 1/2`: running and desired instances; `deployed 1/1, asleep` while no instance has its model in memory. */
export function statusText({ status, instances, progress }: Deployment): string {
  if (!instances) return status;
  if (instances.running + instances.pending === 0) return status === "deployed" ? "deployed (asleep)" : status;
  const resting = progress?.phase === "asleep" || progress?.phase === "waking" ? `, ${progress.phase}` : "";
  return `${status} ${instances.running}/${instances.running + instances.pending}${resting}`;
}

/** Progress of a start, such as `downloading 0/1, 35 % of 4.5 GiB`, and the reasons if no host accepts it. */
function phaseText(one: Deployment): string {
  const { progress, pending_reasons: reasons = [], instances } = one;
  const parts = [statusText(one)];
  if (progress?.phase === "downloading" && progress.total_bytes > 0) {
    // In steps of 5 %, to limit the number of lines.
    const percent = Math.floor((20 * progress.done_bytes) / progress.total_bytes) * 5;
    parts.push(`${percent} % of ${(progress.total_bytes / 1024 ** 3).toFixed(1)} GiB`);
  } else if (progress && isStarting(one) && progress.phase !== one.status && progress.phase !== "ready") {
    parts.push(progress.phase);
  }
  const trouble = isStarting(one) && progress?.trouble ? `; ${progress.trouble}` : "";
  const text = `${parts.join(", ")}${trouble}`;
  if (reasons.length === 0 || !isStarting(one) || (instances?.running ?? 0) > 0) return text;
  return [`${text}; waiting for a host:`, ...reasons.map(({ host, why }) => `  ${host ? `${host}: ` : ""}${why}`)].join(
    "\n",
  );
}

const isStarting = ({ status }: Deployment) =>
  ["initializing", "downloading", "deploying", "updating"].includes(status);

/** Prints each status change on stderr and returns the deployed record. Throws on failure and after the limit. */
export async function waitUntilDeployed(
  terminal: Terminal,
  created: Deployment,
  limitSeconds: number,
  pauseMs = 500,
): Promise<Deployment> {
  const id = created.deploy_id;
  const last = await poll(terminal, {
    first: created,
    read: () => terminal.api.call<Deployment>("GET", `/deploy/${id}`),
    isDone: ({ status }) => ["deployed", "failed", "stopped", "deleted"].includes(status),
    text: phaseText,
    pauseMs,
    limitSeconds,
    timeoutText: ({ status }) =>
      `${id} is still ${status} after ${limitSeconds} s. It continues in the background: \`stoker deploy get ${id}\``,
  });
  if (last.status === "deployed") return last;
  throw new CliError(`${id} ${last.status}: ${last.fail_reason || "no reason given"}`, exitCode.failed);
}
