// vLLM in the image the operator named, or as an installed program. `vllm serve` is named, not the image's entry point: that one
// changed between versions.
import { noAdapters } from "../../proto/engine-args.ts";
import { type EngineVersion, isAtLeast, isWithin, type Lifetime } from "../../proto/engine-version.ts";
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import {
  familyOf,
  type ParserFamily,
  reasoningFamilies,
  reasoningParsers,
  toolFamilies,
  toolParsers,
} from "../../proto/vllm-parsers.ts";
import { engineVersion } from "./allowed-image.ts";
import { commonArgs, driverGpus, type EnginePlace, enginePlan, setsOwn } from "./container-plan.ts";
import { engineTraits, sleepPathsOf, takesCacheSalt } from "./engine-traits.ts";
import { type HostFacts, type ModelFacts, type PlanExtras, type PlanOutcome, refused } from "./host-facts.ts";

const maxLoras = 8;
const adapterArgs = [
  ...["--enable-lora", "--max-loras", String(maxLoras)],
  ...["--max-lora-rank", String(engineTraits.vllm.maxLoraRank)],
];
const generations: ReadonlySet<string> = new Set(["text-generation", "image-text-to-text"]);
/** `--task` of vLLM before 0.10.1. Without it, or a runner, a model that generates serves no vectors and scores. */
const pooled: ReadonlyMap<string, string> = new Map([
  ["embeddings", "embed"],
  ["reranker", "score"],
]);
const rope = "--rope-scaling=";
const aloneShare = 0.9;
/** Share of its part of a shared GPU. */
const ownShare = 0.94;

export function planVllm(
  spec: InstanceSpec__Output,
  modelPath: string,
  host: HostFacts,
  { model }: PlanExtras = {},
): PlanOutcome {
  const version = engineVersion(spec, host);
  const parsers = parsersOf(spec, version, model);
  if (typeof parsers === "string") return refused("bad_extra_args", parsers);
  return enginePlan(spec, modelPath, host, {
    name: "vLLM",
    key: "vllm",
    port: 8000,
    takesAdapters: true,
    readsTemplate: true,
    command: () => ["vllm", "serve"],
    program: { subcommand: ["serve"], secretVariable: "VLLM_API_KEY" },
    argv: (place) => [...argvOf(spec, place, model), ...parsers],
    env: {
      // Adapters come and go on a running base; only the agent reaches these paths.
      VLLM_ALLOW_RUNTIME_LORA_UPDATING: "True",
      VLLM_NO_USAGE_STATS: "1",
      DO_NOT_TRACK: "1",
      // It serves the paths of sleep in this mode only; customers reach none of them.
      ...(sleepsInPlace(spec) ? { VLLM_SERVER_DEV_MODE: "1" } : {}),
      ...(host.driver !== "process" ? { VLLM_CACHE_ROOT: "/tmp/vllm" } : {}),
      ...(isOnProcessors(spec) ? { VLLM_CPU_KVCACHE_SPACE: String(cacheGib(spec)) } : {}),
    },
  });
}

function argvOf(spec: InstanceSpec__Output, place: EnginePlace, model: ModelFacts | undefined): string[] {
  const { version, templatePath } = place;
  const own = setsOwn(spec.extraArgs);
  const isSized = own("gpu-memory-utilization") || isOnProcessors(spec);
  return [
    ...commonArgs(spec, place, { model: [], gpus: "--tensor-parallel-size", batch: "--max-num-seqs" }),
    ...(isSized ? [] : ["--gpu-memory-utilization", memoryShareOf(spec)]),
    ...(own("max-model-len") || spec.contextLength === 0 ? [] : ["--max-model-len", String(spec.contextLength)]),
    ...poolingOf(spec, version),
    ...prefixCaching(spec, version),
    "--enable-prompt-tokens-details",
    ...(sleepsInPlace(spec) ? ["--enable-sleep-mode"] : []),
    ...(spec.extraArgs.includes(noAdapters) ? [] : adapterArgs),
    ...(isAtLeast(version, 0, 16) ? ["--disable-access-log-for-endpoints", "/metrics,/health"] : []),
    ...(templatePath === undefined ? [] : ["--chat-template", templatePath]),
    ...spec.extraArgs.filter((arg) => !isPlanned(arg)).map((arg) => inWordsOf(version, arg, model?.ropeTheta)),
  ];
}

const sleepsInPlace = (spec: InstanceSpec__Output): boolean =>
  spec.sleepAfterSeconds > 0 && sleepPathsOf(spec) !== undefined;

// https://github.com/vllm-project/vllm/pull/21470
function poolingOf({ task }: InstanceSpec__Output, version: EngineVersion | undefined): readonly string[] {
  const earlier = pooled.get(task);
  if (earlier === undefined) return [];
  return isAtLeast(version, 0, 10, 1) ? ["--runner", "pooling"] : ["--task", earlier];
}

/** A build for processors: its share of memory would be one of the host's. */
const isOnProcessors = (spec: InstanceSpec__Output): boolean => driverGpus(spec).length === 0;

/** A quarter of the grant for keys and values, in the whole gibibytes that the engine takes. */
const cacheGib = ({ memoryBytes }: InstanceSpec__Output): number =>
  Math.max(1, Math.floor(Number(memoryBytes) / 4 / 1024 ** 3));

/** Returns the arguments, or a sentence on one that this version would refuse at its start. */
function parsersOf(
  { extraArgs, chatTemplate }: InstanceSpec__Output,
  version: EngineVersion | undefined,
  model: ModelFacts | undefined,
): readonly string[] | string {
  const chat = model && { type: model.type, template: chatTemplate || model.template };
  const chosen = (table: ParserTable): string | undefined => {
    const given = extraArgs.find((arg) => arg.startsWith(`--${table.argument}=`))?.split("=")[1];
    if (given !== undefined) return given;
    const known = chat && familyOf(table.families, chat)?.parser;
    return known !== undefined && isIn(version, table.parsers[known] ?? {}) ? known : undefined;
  };
  const [tool, reasoning] = [chosen(toolTable), chosen(reasoningTable)];
  if (tool === undefined && chat !== undefined && extraArgs.includes(autoTools))
    return `"${autoTools}" needs --tool-call-parser: no parser of this vLLM is known for this model (type ${JSON.stringify(chat.type)}); name one, or leave the argument out.`;
  return [
    ...(tool === undefined ? [] : [autoTools, `--${toolTable.argument}=${tool}`]),
    ...(reasoning === undefined ? [] : [`--${reasoningTable.argument}=${reasoning}`]),
  ];
}

/** An unknown version has only what every version has: vLLM does not start with a parser that it lacks. */
const isIn = (version: EngineVersion | undefined, life: Lifetime): boolean =>
  version ? isWithin(version, life) : life.since === undefined && life.until === undefined;

interface ParserTable {
  readonly argument: string;
  readonly parsers: Readonly<Record<string, Lifetime>>;
  readonly families: readonly ParserFamily[];
}

const autoTools = "--enable-auto-tool-choice";
const toolTable: ParserTable = { argument: "tool-call-parser", parsers: toolParsers, families: toolFamilies };
const reasoningTable: ParserTable = {
  argument: "reasoning-parser",
  parsers: reasoningParsers,
  families: reasoningFamilies,
};

const [cacheOn, cacheOff] = ["--enable-prefix-caching", "--no-enable-prefix-caching"];
/** Arguments of the customer that the plan writes itself. */
const planned: ReadonlySet<string> = new Set([noAdapters, cacheOn, cacheOff, autoTools]);
const isPlanned = (arg: string): boolean =>
  planned.has(arg) || [toolTable, reasoningTable].some(({ argument }) => arg.startsWith(`--${argument}=`));

/** Off where the engine could not keep accounts apart: it takes `cache_salt` with generations only. */
function prefixCaching(
  { extraArgs, task, sharesPrefixCache }: InstanceSpec__Output,
  version: EngineVersion | undefined,
): readonly string[] {
  const isGeneration = task === "" || generations.has(task);
  const isSafe = sharesPrefixCache || (isGeneration && takesCacheSalt("vllm", version));
  return [isSafe && !extraArgs.includes(cacheOff) ? cacheOn : cacheOff];
}

function inWordsOf(version: EngineVersion | undefined, arg: string, ropeTheta: number | undefined): string {
  // https://github.com/vllm-project/vllm/pull/28006
  if (!arg.startsWith(rope) || !isAtLeast(version, 0, 12)) return arg;
  // Recent versions replace all parameters: without the base, positions would have none.
  const base = ropeTheta === undefined ? {} : { rope_theta: ropeTheta };
  const scaling = { ...base, ...(JSON.parse(arg.slice(rope.length)) as object) };
  return `--hf-overrides=${JSON.stringify({ rope_scaling: scaling })}`;
}

/**
 * Share of the GPU's memory, independent of other processes: vLLM counts only its own memory, and starts only if so much is free.
 * The share includes CUDA's own memory.
 * https://docs.vllm.ai/en/v0.18.0/cli/serve/#-gpu-memory-utilization
 */
function memoryShareOf({ gpuShare }: InstanceSpec__Output): string {
  const isShared = gpuShare > 0 && gpuShare < 1;
  const share = isShared ? Math.min(aloneShare, Math.floor(gpuShare * ownShare * 1000) / 1000) : aloneShare;
  return String(share);
}
