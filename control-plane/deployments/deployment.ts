import type { OwnApi } from "../../proto/api-formats.ts";
import type { GpuType } from "../../proto/gpu.ts";
import type { AccountId, DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
import type { InstancePhase } from "../../proto/instance-phase.ts";
import type { ModelEngine } from "../../proto/model-engines.ts";
import type { Scaling } from "./scaling.ts";

export const deploymentStatuses = [
  "initializing",
  "downloading",
  "deploying",
  "deployed",
  "updating",
  "stopping",
  "stopped",
  "failed",
  "deleted",
] as const;
/** Kind of a deployment. All kinds are placed, claimed, observed and metered alike; model endpoints only see models. */
export type DeploymentKind = "model" | "container" | "agent_instance";

/** Engine for which the agent makes a plan. */
export type Engine = ModelEngine | "custom" | "external" | "container" | "agent_instance";

export type DeploymentStatus = (typeof deploymentStatuses)[number];

/** Undefined: the engine's default. */
export interface StandardArgs {
  readonly maxContextSize?: number;
  /** Replaces max_batch_size. */
  readonly maxConcurrentRequests?: number;
  readonly maxImagesPerPrompt?: number;
  readonly gpuMemoryFraction?: number;
  readonly maxPrefillTokens?: number;
  readonly kvCacheDtype?: "auto" | "fp8";
  readonly enablePrefixCaching?: boolean;
  readonly quantization?: string;
}

/** Source of weights, tried in the order local path, hub, package (demo models only). Never contains the hub token. */
export interface WeightsSource {
  readonly repo: string;
  readonly revision: string;
  readonly file?: string;
  /** Format the engine reads; default: one GGUF model. */
  readonly format?: "gguf" | "safetensors" | "onnx";
  readonly sha256?: string;
  /** 0 or absent: unknown. */
  readonly sizeBytes?: number;
  readonly localPath?: string;
  readonly pypiPackage?: string;
  readonly pypiVersion?: string;
  readonly pypiPath?: string;
  /** A catalogue entry may bring its own. */
  readonly chatTemplate?: string;
  /** Model name at the engine, if different (external engines). */
  readonly servedName?: string;
  /** Required host (external engines). */
  readonly host?: string;
  /** API format of the server (external engines); default: openai. */
  readonly api?: OwnApi;
}

/** Parts of a rented container. Its first-start script is sealed in place of a model's hub token. */
export interface ContainerParts {
  /** Name under which hosts offer it. */
  readonly image: string;
  /** Lines of an authorized_keys file, as of its creation. */
  readonly sshKeys: readonly string[];
}

export interface PendingReason {
  readonly host: string;
  readonly why: string;
}

interface Progress {
  readonly phase: InstancePhase;
  readonly doneBytes: number;
  readonly totalBytes: number;
  /** Condition it waits for, or the error of the attempt being retried; empty: none. */
  readonly trouble: string;
}

export interface Deployment {
  readonly id: DeploymentId;
  readonly account: AccountId;
  readonly kind: DeploymentKind;
  /** For a container or agent instance: the name given by its owner. */
  readonly modelName: string;
  readonly version: string;
  readonly task: string;
  readonly type: "legacy" | "llm" | "lora" | "tts";
  readonly engine: Engine;
  readonly status: DeploymentStatus;
  /** `code: what happened, why, what to do`; empty unless it failed or was stopped for lack of funds. */
  readonly failReason: string;
  readonly gpu: GpuType;
  /** Per instance; 0 for an external engine. */
  readonly numGpus: number;
  readonly maxBatchSize: number;
  /** `maxBatchSize` was not set: it is what its external server reports, or the default. */
  readonly takesServerBatch?: boolean;
  readonly minInstances: number;
  readonly maxInstances: number;
  /** Desired instances by load, between the two; 0: asleep until a request arrives. */
  readonly target: number;
  /** Seconds without a request until it sleeps; null: the default. Counts only with min_instances 0. */
  readonly inactiveShutdown: number | null;
  /** Seconds without a request until an instance gives its memory up and waits for a wake; undefined or 0: never. */
  readonly sleepAfterSeconds?: number;
  readonly scaling: Scaling;
  /** Duration of a recent start of an instance, from placement until it served; 0: unknown. */
  readonly startMs: number;
  readonly weights: WeightsSource;
  readonly hasWeightsToken: boolean;
  /** Set for kind container. */
  readonly container?: ContainerParts;
  /** Including the standard arguments. */
  readonly extraArgs: readonly string[];
  readonly standardArgs?: StandardArgs;
  /** Its own image, where the host's operator allows it; empty: the host's image for the engine. */
  readonly image?: string;
  readonly externalUrl: string | null;
  readonly contextLength: number;
  /** Accounts may reuse each other's evaluated prompts; set by an operator. Undefined: no. */
  readonly sharesPrefixCache?: boolean;
  /** Expected memory of one instance over all its GPUs; 0: unknown. */
  readonly memoryBytes: number;
  /** Memory has this fixed upper bound, so instances of one account may share a GPU. */
  readonly isMemoryBound?: boolean;
  /** Subject of its price in the price book, if not the GPU type. */
  readonly priceSubject?: string;
  readonly pendingReasons: readonly PendingReason[];
  /** Incremented by every change of what runs. */
  readonly generation: number;
  /** Number of the desired specification: extra arguments and context length. */
  readonly spec: number;
  /** Number of the last specification that served; 0: none. A failed update returns to it. */
  readonly servingSpec: number;
  /** Why the last update was reverted; empty otherwise. */
  readonly updateError: string;
  /** Failed instances replaced beside serving ones since the last stable period. */
  readonly replacements: number;
  /** Unix ms; 0: never. */
  readonly replacedAtMs: number;
  /** Unix ms of the last caller that waited for an instance; 0: none. */
  readonly awaitedAtMs: number;
  /** Unix ms of the last observed use, to within seconds; 0: never. */
  readonly usedAtMs: number;
  readonly revision: bigint;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
  /** Number of serving instances. */
  readonly running: number;
  /** Counts of live instances: starting, serving the desired specification, serving an older one. */
  readonly rollout: { readonly booting: number; readonly upToDate: number; readonly outdated: number };
  /** Progress of the most advanced instance in bytes of weights, 0 while unknown. Null before placement. */
  readonly progress: Progress | null;
}

export interface Instance {
  readonly id: InstanceId;
  readonly deployId: DeploymentId;
  readonly hostId: HostId;
  /** Generation of its desired specification; incremented when it must run another one in place. */
  readonly generation: number;
  /** Number of its desired specification. */
  readonly spec: number;
  /** Generation of its last report; 0 before the first. */
  readonly observedGeneration: number;
  readonly phase: InstancePhase;
  readonly failCode: string;
  readonly failMessage: string;
  readonly gpuUuids: readonly string[];
  /** Share of each of its GPUs, 1: all. Determines its price and its share of the host. */
  readonly gpuShare: number;
  /** Its memory on a GPU shared with instances of its account; 0: exclusive GPUs. */
  readonly gpuMemoryBytes: number;
  readonly isTombstoned: boolean;
  readonly createdAtMs: number;
}

/** An instance with the state of its host. */
export interface PlacedInstance extends Instance {
  readonly isHostLost: boolean;
  /** Its host is being drained: it serves until replaced elsewhere, or until the deadline. */
  readonly leaving?: Leaving | undefined;
  /** Running and waiting requests there, if recently reported. */
  readonly load?: number | undefined;
}

/** Urgency of a host's drain. */
export type Leaving = "moving" | "due";
