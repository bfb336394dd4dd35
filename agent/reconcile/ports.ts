// What the loop needs from its neighbours besides a driver.
import type { Weights__Output } from "../../proto/gen/stoker/fleet/v1/Weights.ts";
import type { DeploymentId, InstanceId } from "../../proto/ids.ts";
import type { InstancePhase } from "../../proto/instance-phase.ts";

export interface WeightsPort {
  /** Errors with a `code` and `retryable: false` end the instance as failed. */
  ensure(
    weights: Weights__Output,
    onProgress: (done: number, total: number) => void,
    signal: AbortSignal,
  ): Promise<{ modelPath: string }>;
}

export interface RouteTarget {
  readonly instanceId: InstanceId;
  readonly deployId: DeploymentId;
  readonly origin: string;
  /** Of the process or container: another one holds nothing of what was loaded into this. */
  readonly identity?: string;
  readonly maxBatchSize: number;
  readonly ready: boolean;
  readonly draining: boolean;
  /** Origin of the dashboard of an agent instance that has one: the only address of it that a gateway may reach. */
  readonly dashboard?: string;
}

export interface DataPathStats {
  readonly inFlight: number;
  readonly waiting: number;
  readonly tokensPerSecond: number;
  /** Output tokens seen and requests ended so far: their change is progress. */
  readonly tokensTotal?: number;
  readonly finished?: number;
  /** Requests for which there was no place so far. */
  readonly turnedAway?: number;
  /** Of the prompts in flight, estimated. */
  readonly promptTokens?: number;
}

/** The data path in front of the instances. */
export interface DataPath {
  /** The whole set, every time. */
  setTargets(targets: readonly RouteTarget[]): void;
  stats(id: InstanceId): DataPathStats;
  markDraining(id: InstanceId): void;
  /** True once nothing is in flight; false at the deadline. */
  drained(id: InstanceId, deadlineMs: number, signal: AbortSignal): Promise<boolean>;
}

/** `operator`: another version was wanted in its place. */
export type RestartReason = "oom" | "exit" | "health" | "gpu_lost" | "operator";

/** Something that makes a GPU unfit for work. */
export interface GpuFault {
  readonly uuid: string;
  /** Of this very occurrence. */
  readonly id: string;
  readonly reason: string;
}

/** Of the given GPUs, looked for now; must not reject. */
export type GpuFaults = (uuids: readonly string[], signal: AbortSignal) => Promise<readonly GpuFault[]>;

/** For metrics: must not throw or wait. */
export interface ReconcileEvents {
  phase(id: InstanceId, deployId: DeploymentId, phase: InstancePhase): void;
  /** How long a part of a start took. */
  took(part: "pull" | "download" | "create" | "load" | "ready", seconds: number): void;
  downloadFailed(code: string): void;
  restarted(deployId: DeploymentId, reason: RestartReason): void;
  gone(id: InstanceId): void;
}

/** A process or container that serves on GPUs of this host. */
export interface Serving {
  readonly instanceId: InstanceId;
  readonly deployId: DeploymentId;
  readonly identity: string;
}

/** Measures GPU time. Told at every look, the whole set; must not throw or wait. */
export interface GpuMeter {
  look(serving: readonly Serving[]): void;
}
