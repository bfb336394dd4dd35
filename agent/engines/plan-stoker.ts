// Our own runtime, configured by its environment.
import { join } from "node:path";
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import type { ContainerPlan } from "../reconcile/driver.ts";
import { imageOf } from "./allowed-image.ts";
import {
  adaptersMount,
  driverGpus,
  mountedTemplate,
  mountedWeights,
  templateFile,
  templateTarget,
} from "./container-plan.ts";
import { planDraft } from "./draft-model.ts";
import { type HostFacts, identityOf, type PlanExtras, type PlanOutcome } from "./host-facts.ts";

const gib = 1024 ** 3;
const containerPort = 8000;
/** A child without requests from its agent for this time stops itself. */
const orphanTimeoutMs = 600_000;
/**
 * Node's pool of threads (four) for a language model on processors. llama.cpp starts its helper threads again for every token,
 * beside whichever of the four has the token's turn, and Linux then often puts both on one core, where they wait for each
 * other by spinning: two to three times as slow (docs/BENCH.md). One thread keeps its core. With a GPU the pool samples for many
 * streams at a time and stays as it is.
 */
export const cpuTextPool = { UV_THREADPOOL_SIZE: "1" } as const;

export function planStoker(
  spec: InstanceSpec__Output,
  modelPath: string,
  host: HostFacts,
  { draftPath }: PlanExtras = {},
): PlanOutcome {
  const isProcess = host.driver === "process";
  const template = templateFile(spec, host);
  const weights = mountedWeights(modelPath);
  const modelTarget = isProcess ? modelPath : weights.modelPath;
  const templatePath = template && (isProcess ? template.path : templateTarget);
  const adapters = adaptersMount(spec, host);
  const draft = planDraft(draftPath, isProcess);
  const graphs = graphCache(modelPath, spec.deployId, host);
  const mounts = [weights.mount, ...mountedTemplate(template), ...adapters.mounts, ...draft.mounts, ...graphs.mounts];
  const realGpus = driverGpus(spec);
  const env: Record<string, string> = {
    STOKER_INSTANCE_ID: spec.instanceId,
    STOKER_MODEL_PATH: modelTarget,
    STOKER_SERVED_MODEL_NAME: spec.servedModelName,
    // Set it only for other models than text: their files may not determine the task.
    ...(spec.task === "" || spec.task === "text-generation" ? {} : { STOKER_TASK: spec.task }),
    STOKER_MAX_BATCH_SIZE: String(Math.max(1, spec.maxBatchSize)),
    STOKER_CONTEXT_LENGTH: String(spec.contextLength),
    STOKER_GPU_LAYERS: realGpus.length > 0 ? "auto" : "0",
    ...(realGpus.length === 0 && /\.gguf$/i.test(modelPath) ? cpuTextPool : {}),
    STOKER_HOST: isProcess ? "127.0.0.1" : "0.0.0.0",
    STOKER_PORT: isProcess ? "0" : String(containerPort),
    STOKER_LOG_LEVEL: host.logLevel,
    ...(spec.cpus > 0 ? { STOKER_CPUS: String(spec.cpus) } : {}),
    ...(Number(spec.memoryBytes) > 0 ? { STOKER_MEMORY_BYTES: spec.memoryBytes } : {}),
    ...draft.env,
    ...graphs.env,
    ...(templatePath ? { STOKER_CHAT_TEMPLATE_FILE: templatePath } : {}),
    ...(isProcess ? { STOKER_ORPHAN_TIMEOUT_MS: String(orphanTimeoutMs) } : {}),
    // Without isolation nothing else keeps it off the GPUs of its neighbours.
    ...(isProcess ? { CUDA_VISIBLE_DEVICES: realGpus.join(",") } : {}),
  };
  return {
    ok: true,
    files: template ? [template] : [],
    ...(isProcess ? {} : { folders: adapters.folders }),
    ...(graphs.folders.length > 0 ? { openFolders: graphs.folders } : {}),
    plan: {
      ...identityOf(spec),
      kind: "runtime",
      image: imageOf(spec, host),
      args: spec.extraArgs,
      env,
      mounts: isProcess ? [] : mounts,
      port: containerPort,
      memoryBytes: Number(spec.memoryBytes),
      cpus: spec.cpus,
      gpuUuids: realGpus,
      claimedGpus: spec.gpuUuids,
      shmBytes: (realGpus.length > 1 ? 16 : 2) * gib,
    },
  };
}

// Cache of graphs that a model server optimised for this machine. A folder per deployment, so that tenants share nothing. It
// survives instances.
const target = "/var/cache/stoker/graphs";

interface GraphCache {
  readonly env: Readonly<Record<string, string>>;
  readonly mounts: ContainerPlan["mounts"];
  readonly folders: readonly string[];
}

/** Empty for GGUF, which llama.cpp reads directly, and on a host without such folders. */
function graphCache(modelPath: string, deployId: string, { graphsDir, driver }: HostFacts): GraphCache {
  if (graphsDir === undefined || /\.gguf$/i.test(modelPath)) return { env: {}, mounts: [], folders: [] };
  const folder = join(graphsDir, deployId);
  return driver === "process"
    ? { env: { STOKER_GRAPH_CACHE: folder }, mounts: [], folders: [folder] }
    : {
        env: { STOKER_GRAPH_CACHE: target },
        mounts: [{ source: folder, target, readOnly: false }],
        folders: [folder],
      };
}
