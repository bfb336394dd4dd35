import type { GpuType } from "../../proto/gpu.ts";
import type { AccountId, DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
import type { InstancePhase } from "../../proto/instance-phase.ts";

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
export type Engine = "stoker" | "vllm" | "sglang" | "external" | "container" | "agent_instance";

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
  readonly weights: WeightsSource;
  readonly hasWeightsToken: boolean;
  /** Of kind container. */
  readonly container?: ContainerParts;
  readonly extraArgs: readonly string[];
  /** Its own, where the host's operator allows it; empty: the host's for the engine. */
  readonly image?: string;
  readonly externalUrl: string | null;
  readonly contextLength: number;
  /** Expected need of one instance over all its GPUs; 0 unknown. */
  readonly memoryBytes: number;
  /** Under which the price book keeps what a minute costs, where that is not the GPU's price. */
  readonly priceSubject?: string;
  readonly pendingReasons: readonly PendingReason[];
  /** Rises with every change of what runs. */
  readonly generation: number;
  readonly revision: bigint;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
  /** Instances that serve. */
  readonly running: number;
  /** How far the first instance has come: bytes of weights, 0 while unknown. Null before it is placed. */
  readonly progress: { readonly phase: InstancePhase; readonly doneBytes: number; readonly totalBytes: number } | null;
}

export interface Instance {
  readonly id: InstanceId;
  readonly deployId: DeploymentId;
  readonly hostId: HostId;
  /** Of the spec it should run. */
  readonly generation: number;
  /** Of the spec it last reported to run; 0 before its first report. */
  readonly observedGeneration: number;
  readonly phase: InstancePhase;
  readonly failCode: string;
  readonly failMessage: string;
  readonly gpuUuids: readonly string[];
  readonly isTombstoned: boolean;
  readonly createdAtMs: number;
}

/** An instance and what the clocks say of its host. */
export interface PlacedInstance extends Instance {
  readonly isHostLost: boolean;
}
