import type { GpuType } from "../../proto/gpu.ts";
import type { AccountId, DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
import type { InstancePhase } from "../../proto/instance-phase.ts";
import type { StandardArgs } from "./standard-args.ts";

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
/** What a deployment runs. All are placed, claimed, observed and metered alike; the model surfaces know only models. */
export type DeploymentKind = "model" | "container" | "agent_instance";

/** What the agent makes a plan of. */
export type Engine = "stoker" | "vllm" | "sglang" | "custom" | "external" | "container" | "agent_instance";

export type DeploymentStatus = (typeof deploymentStatuses)[number];

/** Where weights come from, tried in the order local path, hub, package (demo models only). Never the hub token. */
export interface WeightsSource {
  readonly repo: string;
  readonly revision: string;
  readonly file?: string;
  /** What the engine reads; one GGUF model without it. */
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
  /** The name the engine knows, where it is not the deployment's own (external engines). */
  readonly servedName?: string;
  /** The one host to place on (external engines). */
  readonly host?: string;
}

/** What a rented container is made of. What it does at its first start is sealed, where a model's hub token would be. */
export interface ContainerParts {
  /** By the name under which hosts offer it. */
  readonly image: string;
  /** Lines of an authorized_keys file, as they were when it was created. */
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
  /** What it waits for, or why its last try failed that is repeated; empty: nothing. */
  readonly trouble: string;
}

export interface Deployment {
  readonly id: DeploymentId;
  readonly account: AccountId;
  readonly kind: DeploymentKind;
  /** Of a container or agent instance: the name its owner gave it. */
  readonly modelName: string;
  readonly version: string;
  readonly task: string;
  readonly type: "legacy" | "llm" | "lora" | "tts";
  readonly engine: Engine;
  readonly status: DeploymentStatus;
  /** `code: what happened, why, what to do`; empty unless it failed, or was stopped for its money. */
  readonly failReason: string;
  readonly gpu: GpuType;
  /** Per instance; 0 for an external engine. */
  readonly numGpus: number;
  readonly maxBatchSize: number;
  readonly minInstances: number;
  readonly maxInstances: number;
  /** Wanted by load, between the two; 0: asleep until somebody asks. */
  readonly target: number;
  /** Seconds without a request until it sleeps; null: the default. Counts only with min_instances 0. */
  readonly inactiveShutdown: number | null;
  readonly weights: WeightsSource;
  readonly hasWeightsToken: boolean;
  /** Of kind container. */
  readonly container?: ContainerParts;
  /** What the standard ones come to included. */
  readonly extraArgs: readonly string[];
  readonly standardArgs?: StandardArgs;
  /** Its own, where the host's operator allows it; empty: the host's for the engine. */
  readonly image?: string;
  readonly externalUrl: string | null;
  readonly contextLength: number;
  /** Expected need of one instance over all its GPUs; 0 unknown. */
  readonly memoryBytes: number;
  /** It will never take more than that: then instances of one account may share a GPU. */
  readonly isMemoryBound?: boolean;
  /** Under which the price book keeps what a minute costs, where that is not the GPU's price. */
  readonly priceSubject?: string;
  readonly pendingReasons: readonly PendingReason[];
  /** Rises with every change of what runs. */
  readonly generation: number;
  /** Names what is to run: extra arguments and context length. */
  readonly spec: number;
  /** The last one that served; 0: none has yet. What a failed update returns to. */
  readonly servingSpec: number;
  /** Why the last update was taken back; empty otherwise. */
  readonly updateError: string;
  /** Instances that failed beside serving ones and were replaced, since the last calm time. */
  readonly replacements: number;
  /** Unix ms; 0: never. */
  readonly replacedAtMs: number;
  /** Unix ms of the last caller that waited for an instance; 0: none. */
  readonly awaitedAtMs: number;
  /** Unix ms at which it was last seen in use, some seconds more or less; 0: never. */
  readonly usedAtMs: number;
  readonly revision: bigint;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
  /** Instances that serve. */
  readonly running: number;
  /** Of the live instances: on their way, serving what is wanted, and serving what was wanted before. */
  readonly rollout: { readonly booting: number; readonly upToDate: number; readonly outdated: number };
  /** How far the first instance has come: bytes of weights, 0 while unknown. Null before it is placed. */
  readonly progress: Progress | null;
}

export interface Instance {
  readonly id: InstanceId;
  readonly deployId: DeploymentId;
  readonly hostId: HostId;
  /** Of what it should run; rises when it is to run something else in its place. */
  readonly generation: number;
  /** What it should run. */
  readonly spec: number;
  /** Of what it last reported to run; 0 before its first report. */
  readonly observedGeneration: number;
  readonly phase: InstancePhase;
  readonly failCode: string;
  readonly failMessage: string;
  readonly gpuUuids: readonly string[];
  /** Of each of its GPUs: 1 all of it. What it pays for, and what of the host it gets. */
  readonly gpuShare: number;
  /** Of a GPU it shares with others of its account; 0: its GPUs are its own. */
  readonly gpuMemoryBytes: number;
  readonly isTombstoned: boolean;
  readonly createdAtMs: number;
}

/** An instance and what the clocks say of its host. */
export interface PlacedInstance extends Instance {
  readonly isHostLost: boolean;
  /** Its host is being emptied: it serves until it is replaced elsewhere, or until that may take no longer. */
  readonly leaving?: Leaving | undefined;
  /** Requests that run and wait there, where its host said so of late. */
  readonly load?: number | undefined;
}

/** How urgently a host is being emptied. */
export type Leaving = "moving" | "due";
