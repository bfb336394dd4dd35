// Common parts of the plans of foreign engines: weights read-only at /models, caches in memory, one port.
import { basename, join } from "node:path";
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import { type HostFacts, identityOf, type PlanOutcome, refused } from "./host-facts.ts";

const gib = 1024 ** 3;

interface Engine {
  /** As people call it. */
  readonly name: string;
  readonly image: string | undefined;
  readonly setting: string;
  readonly port: number;
  readonly command: (image: string) => readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** It takes LoRA adapters while it runs. */
  readonly takesAdapters: boolean;
}

/** The root is read-only, and what one tenant's engine compiled must never run in another's: caches live as long as it does. */
export const engineCaches = {
  HOME: "/tmp",
  XDG_CACHE_HOME: "/tmp/cache",
  TRITON_CACHE_DIR: "/tmp/triton",
  TORCHINDUCTOR_CACHE_DIR: "/tmp/inductor",
  FLASHINFER_WORKSPACE_BASE: "/tmp",
  TRANSFORMERS_OFFLINE: "1",
} as const;

export function containerPlan(
  spec: InstanceSpec__Output,
  modelPath: string,
  host: HostFacts,
  engine: Engine,
): PlanOutcome {
  if (host.driver !== "docker")
    return refused(
      "engine_unavailable",
      `${engine.name} runs in containers and this host starts model servers as processes; deploy on a host with Docker, or GGUF weights on our own runtime.`,
    );
  const image = spec.image || engine.image;
  if (image === undefined || image === "")
    return refused(
      "engine_unavailable",
      `the operator of this host named no image of ${engine.name} (${engine.setting}); have it set, or deploy on another host.`,
    );
  const gpuUuids = driverGpus(spec);
  const adapters = engine.takesAdapters ? adaptersMount(spec, host) : { mounts: [], folders: [] };
  return {
    ok: true,
    files: [],
    folders: adapters.folders,
    plan: {
      ...identityOf(spec),
      kind: "runtime",
      image,
      entrypoint: engine.command(image),
      args: [],
      env: { ...engine.env, STOKER_INSTANCE_ID: spec.instanceId },
      mounts: [{ source: modelPath, target: `/models/${basename(modelPath)}`, readOnly: true }, ...adapters.mounts],
      port: engine.port,
      memoryBytes: Number(spec.memoryBytes),
      cpus: spec.cpus,
      gpuUuids,
      shmBytes: (gpuUuids.length > 1 ? 16 : 2) * gib,
      // Kernels are compiled into it at the start.
      scratchBytes: 8 * gib,
    },
  };
}

/** GPUs of type `other` are shares of the host's memory; only a real one has a driver's uuid. */
export function driverGpus(spec: Pick<InstanceSpec__Output, "gpuUuids">): string[] {
  return spec.gpuUuids.filter((uuid) => /^(GPU|MIG)-/.test(uuid));
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
  modelPath: string,
  port: number,
  flags: { readonly model: string; readonly gpus: string; readonly batch: string },
): string[] {
  return [
    ...[flags.model, `/models/${basename(modelPath)}`],
    ...["--served-model-name", spec.servedModelName],
    ...["--host", "0.0.0.0", "--port", String(port)],
    ...[flags.gpus, String(Math.max(1, driverGpus(spec).length))],
    ...[flags.batch, String(Math.max(1, spec.maxBatchSize))],
  ];
}
