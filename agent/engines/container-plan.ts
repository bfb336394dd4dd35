// Common parts of the plans of foreign engines, in a container (weights read-only at /models, caches in memory) or as a process.
import { createHash } from "node:crypto";
import { basename, dirname, join } from "node:path";
import type { EngineVersion } from "../../proto/engine-version.ts";
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import { vendorOf } from "../../proto/gpu-vendors.ts";
import { type ForeignEngine, imageSetting } from "../../proto/model-engines.ts";
import { engineVersion, imageOf } from "./allowed-image.ts";
import { type HostFacts, identityOf, type PlanFile, type PlanOutcome, refused } from "./host-facts.ts";

const gib = 1024 ** 3;

interface Engine {
  /** As people call it. */
  readonly name: string;
  readonly key: ForeignEngine;
  readonly port: number;
  /** Program and subcommand in its images. */
  readonly command: (version: EngineVersion | undefined) => readonly string[];
  /** Arguments and key of an installed program; undefined: the engine runs in images only. */
  readonly program?: { readonly subcommand: readonly string[]; readonly secretVariable: string };
  readonly argv: (place: EnginePlace) => readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** It takes LoRA adapters while it runs. */
  readonly takesAdapters: boolean;
  /** It takes a chat template in a file. */
  readonly readsTemplate?: boolean;
}

/** Differences between a container and a process for the engine. */
export interface EnginePlace {
  readonly modelPath: string;
  readonly host: string;
  /** Undefined: the driver chooses it and adds it to the arguments. */
  readonly port: number | undefined;
  /** Undefined: unknown, the newest that is known here is meant. */
  readonly version: EngineVersion | undefined;
  /** Chat template that replaces the model's own; undefined: none. */
  readonly templatePath?: string | undefined;
}

/** The root is read-only, and what one tenant's engine compiled must never run in another's: caches live as long as it does. */
const engineCaches = {
  HOME: "/tmp",
  XDG_CACHE_HOME: "/tmp/cache",
  TRITON_CACHE_DIR: "/tmp/triton",
  TORCHINDUCTOR_CACHE_DIR: "/tmp/inductor",
  FLASHINFER_WORKSPACE_BASE: "/tmp",
  TRANSFORMERS_OFFLINE: "1",
} as const;

export function enginePlan(
  spec: InstanceSpec__Output,
  modelPath: string,
  host: HostFacts,
  engine: Engine,
): PlanOutcome {
  return host.driver === "process"
    ? programPlan(spec, modelPath, host, engine)
    : containerPlan(spec, modelPath, host, engine);
}

function containerPlan(spec: InstanceSpec__Output, modelPath: string, host: HostFacts, engine: Engine): PlanOutcome {
  const { name, key, port, command, argv } = engine;
  const image = imageOf(spec, host);
  if (image === "")
    return refused(
      "engine_unavailable",
      `the operator of this host named no image of ${name} (${imageSetting(key)}); have it set, or deploy on another host.`,
    );
  const gpuUuids = driverGpus(spec);
  const adapters = engine.takesAdapters ? adaptersMount(spec, host) : { mounts: [], folders: [] };
  const weights = mountedWeights(modelPath);
  const template = engine.readsTemplate ? templateFile(spec, host) : undefined;
  const version = engineVersion(spec, host);
  const place = {
    modelPath: weights.modelPath,
    host: "0.0.0.0",
    port,
    version,
    templatePath: template && templateTarget,
  };
  return {
    ok: true,
    files: template ? [template] : [],
    folders: adapters.folders,
    plan: {
      ...identityOf(spec),
      kind: "runtime",
      image,
      entrypoint: [...command(version), ...argv(place)],
      args: [],
      env: { ...engineCaches, ...engine.env, STOKER_INSTANCE_ID: spec.instanceId },
      mounts: [weights.mount, ...mountedTemplate(template), ...adapters.mounts],
      port,
      memoryBytes: Number(spec.memoryBytes),
      cpus: spec.cpus,
      gpuUuids,
      shmBytes: (gpuUuids.length > 1 ? 16 : 2) * gib,
      // Kernels are compiled into it at the start.
      scratchBytes: 8 * gib,
    },
  };
}

/** For development: an installed program without isolation, on a port that the driver chooses. */
function programPlan(spec: InstanceSpec__Output, modelPath: string, host: HostFacts, engine: Engine): PlanOutcome {
  const { name, key, program, argv } = engine;
  const installed = host.enginePrograms?.[key];
  if (!program || !installed)
    return refused(
      "engine_unavailable",
      `this host starts model servers as processes and has no program of ${name}; deploy on a host with Docker, or GGUF weights on our own runtime.`,
    );
  const gpuUuids = driverGpus(spec);
  const template = engine.readsTemplate ? templateFile(spec, host) : undefined;
  const place = {
    modelPath,
    host: "127.0.0.1",
    port: undefined,
    version: installed.version,
    templatePath: template?.path,
  };
  return {
    ok: true,
    files: template ? [template] : [],
    plan: {
      ...identityOf(spec),
      kind: "runtime",
      image: "",
      program: {
        argv: [installed.path, ...program.subcommand, ...argv(place)],
        portFlag: "--port",
        secretVariable: program.secretVariable,
      },
      args: [],
      env: {
        ...engine.env,
        TRANSFORMERS_OFFLINE: "1",
        STOKER_INSTANCE_ID: spec.instanceId,
        CUDA_VISIBLE_DEVICES: gpuUuids.join(","),
      },
      mounts: [],
      port: 0,
      memoryBytes: Number(spec.memoryBytes),
      cpus: spec.cpus,
      gpuUuids,
      claimedGpus: spec.gpuUuids,
      shmBytes: 0,
    },
  };
}

/** Weights as a container sees them. An engine finds the other parts of a split GGUF model beside the first. */
export function mountedWeights(modelPath: string) {
  const isSplit = /-\d{5}-of-\d{5}\.gguf$/i.test(modelPath);
  const target = `/models/${basename(modelPath)}`;
  const mount = isSplit
    ? { source: dirname(modelPath), target: "/models", readOnly: true }
    : { source: modelPath, target, readOnly: true };
  return { modelPath: target, mount };
}

/** Path of the chat template in a container. */
export const templateTarget = "/etc/stoker/chat-template.jinja";

/** Named by content: a template that changes is another file, so a running server keeps the one it was given. */
export function templateFile(
  { chatTemplate }: Pick<InstanceSpec__Output, "chatTemplate">,
  { filesDir }: HostFacts,
): PlanFile | undefined {
  if (chatTemplate === "") return undefined;
  const digest = createHash("sha256").update(chatTemplate).digest("hex").slice(0, 32);
  return { path: join(filesDir, `chat-template-${digest}.jinja`), text: chatTemplate };
}

export const mountedTemplate = (template: PlanFile | undefined) =>
  template ? [{ source: template.path, target: templateTarget, readOnly: true }] : [];

/** GPUs of type `other` are shares of the host's memory; only a real one has a driver's uuid. */
export function driverGpus(spec: Pick<InstanceSpec__Output, "gpuUuids">): string[] {
  return spec.gpuUuids.filter((uuid) => vendorOf(uuid) !== undefined);
}

export function setsOwn(args: readonly string[]): (name: string) => boolean {
  const names = new Set(args.map((arg) => arg.slice(2).split("=")[0]));
  return (name) => names.has(name);
}

export const adaptersTarget = "/adapters";

const adaptedTasks: ReadonlySet<string> = new Set(["", "text-generation", "text-to-image"]);

/** A folder that fills and empties while the engine runs; of models that take adapters. */
export function adaptersMount(spec: InstanceSpec__Output, { adaptersDir }: HostFacts) {
  if (adaptersDir === undefined || !adaptedTasks.has(spec.task)) return { mounts: [], folders: [] };
  const source = join(adaptersDir, spec.instanceId);
  return { mounts: [{ source, target: adaptersTarget, readOnly: true }], folders: [source] };
}

/** Arguments that engines share, under the flags of one engine. */
export function commonArgs(
  spec: InstanceSpec__Output,
  { modelPath, host, port }: EnginePlace,
  flags: { readonly model: readonly string[]; readonly gpus: string; readonly batch: string },
): string[] {
  return [
    ...[...flags.model, modelPath],
    ...["--served-model-name", spec.servedModelName],
    ...["--host", host, ...(port === undefined ? [] : ["--port", String(port)])],
    ...[flags.gpus, String(Math.max(1, driverGpus(spec).length))],
    ...[flags.batch, String(Math.max(1, spec.maxBatchSize))],
  ];
}
