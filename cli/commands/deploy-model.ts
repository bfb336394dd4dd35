// `stoker deploy NAME`: shows size, fit and price, asks, deploys and prints a call.
import type { Responses } from "../../proto/gen/responses.ts";
import { CliError, exitCode } from "../cli-error.ts";
import { type Command, deployGroup } from "../command.ts";
import { confirm } from "../confirm.ts";
import { endDryRun } from "../dry-run.ts";
import { table } from "../table.ts";
import type { Terminal } from "../terminal.ts";
import { otherGpu } from "./deploy.ts";
import { addCreateOptions, type CreateFlags, create, dryRun, gpuOffers } from "./deploy-create.ts";
import { onLines } from "./model.ts";

type Known = Responses["GET /v1/model-catalogue"]["models"][number];

/** A GPU configuration that the model could run on. */
interface Choice {
  readonly gpu: string;
  readonly count: number;
  readonly usd_per_hour: number;
  /** Names of the devices of GPU type `other`; empty for other types. */
  readonly devices: readonly string[];
  readonly fits: boolean;
  /** `unknown`: the GPUs are free, but the hub cannot be reached. */
  readonly repository: string;
  /** Why it does not fit. */
  readonly reason: string;
}

interface Plan {
  readonly model: string;
  readonly known: Known | null;
  /** Memory that an instance needs; 0: unknown. */
  readonly memory_bytes: number;
  readonly choices: readonly Choice[];
  /** Configuration to deploy on. Null: none fits. */
  readonly chosen: Choice | null;
}

interface Flags extends CreateFlags {
  readonly yes?: boolean;
}

/** More configurations than this are not checked one by one. */
const maxChoices = 12;

export function addDeployModel(program: Command): void {
  const deploy = deployGroup(program)
    .usage("<model> [--gpu <type>] [--dry-run] [--yes] | <command>")
    .example("stoker deploy Qwen/Qwen3-8B")
    .example("stoker deploy Qwen3-8B --gpu H100-80GB --dry-run");
  // The default command of the group: `stoker deploy NAME`.
  addCreateOptions(deploy.command("model [name]", { isDefault: true, hidden: true }), true)
    .description("show size, fit and price of a model, ask, and deploy it")
    .example("stoker deploy Qwen/Qwen3-8B")
    .option("-y, --yes", "do not ask for confirmation")
    .run(async (terminal, name: string | undefined, flags: Flags) => {
      if (name === undefined) return deploy.help({ error: true });
      // A model is named owner/name, or as the last part of a name in the catalogue, which has a digit or a hyphen.
      if (/^[a-z]+$/i.test(name) && flags.hfRepo === undefined) deploy.error(`error: unknown command '${name}'`);
      await deployModel(terminal, await findModel(terminal, name), flags);
    });
}

/** Finds the record of the catalogue for a name with or without its owner. */
async function findModel(
  { api }: Terminal,
  name: string,
): Promise<{ readonly name: string; readonly known: Known | null }> {
  const { models } = await api.call<{ models: readonly Known[] }>(
    "GET",
    `/v1/model-catalogue?${new URLSearchParams({ search: name })}`,
  );
  const text = name.toLowerCase();
  const found = models.filter((one) => [one.name, one.name.split("/")[1]].some((part) => part?.toLowerCase() === text));
  if (found.length === 1 && found[0]) return { name: found[0].name, known: found[0] };
  if (name.includes("/")) return { name, known: null };
  const near = (found.length > 0 ? found : models).slice(0, 5).map((one) => one.name);
  throw new CliError(
    `Model ${name} is not in the catalogue. ${near.length > 0 ? `Similar: ${near.join(", ")}.` : "Give it as owner/name."} \`stoker model search\` lists all.`,
    exitCode.notFound,
  );
}

async function deployModel(
  terminal: Terminal,
  { name, known }: { readonly name: string; readonly known: Known | null },
  given: Flags,
): Promise<void> {
  const isLanguageModel = known === null || known.task === "text-generation";
  const flags: CreateFlags = { ...given, ...(given.task === undefined && !isLanguageModel && { task: known.task }) };
  const plan = await planOf(terminal, name, known, flags);
  if (given.dryRun) {
    terminal.show(plan, planText);
    return endDryRun(plan.chosen !== null, plan.chosen?.repository);
  }
  if (!terminal.isStructured) terminal.progress(planText(plan));
  const { chosen } = plan;
  const on = chosen === null ? "It waits until a host has capacity" : `On ${configOf(chosen)}, ${priceOf(chosen)}`;
  if (!given.yes) await confirm("stoker deploy", () => `Deploy ${name}? ${on}.`);
  const chosenFlags = chosen === null ? flags : { ...flags, gpu: chosen.gpu, numGpus: chosen.count };
  const deployed = await create(terminal, name, chosenFlags);
  if (given.wait && !terminal.isStructured) await printCall(terminal, deployed.model_name);
}

async function planOf(terminal: Terminal, model: string, known: Known | null, flags: CreateFlags): Promise<Plan> {
  const offers = (await gpuOffers(terminal.api, flags.hfRepo ?? model))
    .map((offer) => {
      const [, count = "1", gpu = offer.gpu_config] = /^(\d+)x(.+)$/.exec(offer.gpu_config) ?? [];
      return { ...offer, gpu, count: Number(count) };
    })
    .filter(({ gpu, count }) => (flags.gpu ?? gpu) === gpu && (flags.numGpus ?? count) === count);
  let memory = 0;
  const choices: Choice[] = [];
  for (const { gpu, count, usd_per_hour, devices } of offers.slice(0, maxChoices)) {
    const found = await dryRun(terminal, model, { ...flags, gpu, numGpus: count });
    memory = Math.max(memory, found.memory_bytes);
    const why = found.refused[0];
    choices.push({
      gpu,
      count,
      usd_per_hour,
      devices,
      fits: found.fits,
      repository: found.repository,
      reason: found.fits ? uncheckedText(found.repository) : (why?.why ?? "no such host"),
    });
  }
  const fitting = choices.filter(({ fits }) => fits).toSorted((a, b) => a.usd_per_hour - b.usd_per_hour);
  const recommended = offers.filter((one) => one.recommended).map((one) => one.gpu_config);
  const chosen = fitting.find((one) => recommended.includes(configOf(one))) ?? fitting[0] ?? null;
  return { model, known, memory_bytes: memory, choices, chosen };
}

/** Remark on a repository that could not be checked. */
const uncheckedText = (repository: string): string =>
  repository === "unknown" ? "the hub cannot be reached: repository not checked" : "";

const configOf = ({ gpu, count }: Choice): string => `${count}x${gpu}`;
const priceOf = ({ usd_per_hour: usd }: Choice): string => `USD ${usd.toFixed(2)} per hour and instance`;

function planText({ model, known, memory_bytes: bytes, choices, chosen }: Plan): string {
  const facts = [
    ["model", model],
    ["size", known ? `${known.parameters}B parameters, context of ${known.context_length} tokens` : ""],
    ["weights", known?.weights.map(({ quantisation, gib }) => `${quantisation} ${gib} GiB`).join(", ") ?? ""],
    ["memory", bytes > 0 ? `about ${(bytes / 1024 ** 3).toFixed(1)} GiB per instance` : ""],
    ["licence", known ? `${known.licence}${known.gated ? ", gated: needs --hf-token-file" : ""}` : ""],
  ].filter(([, value]) => value !== "");
  const rows = choices.map((one) => [
    `${one === chosen ? "*" : " "} ${configOf(one)}`,
    one.usd_per_hour.toFixed(2),
    one.fits ? (one.repository === "unknown" ? "unknown" : "yes") : "no",
    one.reason,
  ]);
  return [
    ...facts.map(([name = "", value]) => `${name.padEnd(8)} ${value}`),
    "",
    rows.length === 0
      ? "No GPUs are available for it. Operators add a host: `stoker node token create`"
      : table(["  GPUS", "USD/H", "FITS", "REASON"], rows, 80),
    ...(choices.some(({ gpu }) => gpu === "other")
      ? [`other: ${otherGpu([...new Set(choices.flatMap(({ devices }) => devices))])}`]
      : []),
  ].join("\n");
}

/** Prints a call of the deployed model. */
async function printCall(terminal: Terminal, model: string): Promise<void> {
  const path = `/models/${encodeURIComponent(model)}`;
  const found = await terminal.api.call<Responses["GET /models/{model_name}"]>("GET", path).catch((error: unknown) => {
    // The model is deployed, but not listed yet.
    if (error instanceof CliError && error.exitCode === exitCode.notFound) return undefined;
    throw error;
  });
  terminal.write(`\nCall it:\n${found ? onLines(found.curl_inv) : `stoker infer -m ${model} -i input=Hello`}\n`);
}
