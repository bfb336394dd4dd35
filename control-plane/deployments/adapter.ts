// What is known of a LoRA adapter: a small change to a base model that its running instances take and drop without a restart.
import type { GpuType } from "../../proto/gpu.ts";
import type { AccountId, AdapterId, DeploymentId } from "../../proto/ids.ts";
import type { Engine } from "./deployment.ts";

export type AdapterStatus = "initializing" | "downloading" | "deploying" | "deployed" | "failed" | "deleted";

export interface Adapter {
  readonly id: AdapterId;
  readonly account: AccountId;
  /** `owner/name`, as requests name it. */
  readonly name: string;
  readonly baseDeployId: DeploymentId;
  /** As it was named when the adapter was made. */
  readonly baseModel: string;
  readonly repo: string;
  readonly revision: string;
  readonly hasToken: boolean;
  /** Kept for its owner: adapters serve their own account alone. */
  readonly isPrivate: boolean;
  readonly description: string;
  /** deployed: some instance has held it. */
  readonly status: AdapterStatus;
  /** `code: what happened, why, what to do`; also what is tried again. Empty while nothing is wrong. */
  readonly failReason: string;
  /** Instances of the base that serve it now. */
  readonly held: number;
  readonly base: {
    readonly task: string;
    readonly engine: Engine;
    readonly gpu: GpuType;
    readonly numGpus: number;
    readonly maxBatchSize: number;
  };
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
}

/** What a host says of an adapter at one instance. */
export interface AdapterNews {
  readonly id: AdapterId;
  readonly phase: "downloading" | "loading" | "ready" | "failed";
  /** Empty unless it failed. */
  readonly failCode: string;
  readonly failMessage: string;
  /** Trying again cannot help. */
  readonly isFinal: boolean;
}

/** How many an instance holds at once, by engine; an engine that is not named takes none while it runs. */
export const mostHeld: Readonly<Partial<Record<Engine, number>>> = { stoker: 4, vllm: 8 };
