// Ports of the loop besides the driver.
import type { EngineAddress } from "../../proto/bearer-secret.ts";
import type { Weights__Output } from "../../proto/gen/stoker/fleet/v1/Weights.ts";
import type { DeploymentId, InstanceId } from "../../proto/ids.ts";
import type { InstancePhase, RestartReason } from "../../proto/instance-phase.ts";
import type { CacheIsolation } from "../engines/engine-traits.ts";

export interface WeightsPort {
  /** Errors with a `code` and `retryable: false` end the instance as failed. */
  ensure(
    weights: Weights__Output,
    onProgress: (done: number, total: number) => void,
    signal: AbortSignal,
  ): Promise<{ modelPath: string }>;
}

export interface RouteTarget extends EngineAddress {
  readonly instanceId: InstanceId;
  readonly deployId: DeploymentId;
  /** Identity of the process or container: a new one has no loaded adapters. */
  readonly identity?: string;
  readonly maxBatchSize: number;
  readonly ready: boolean;
  readonly draining: boolean;
  /** Origin of an agent instance's dashboard: the only address of it that gateways can reach. */
  readonly dashboard?: string;
  /** Way in which its engine receives the tenant of a request, to keep prefix caches apart; our headers by default. */
  readonly cacheIsolation?: CacheIsolation;
  /** Its engine counts the tokens of a request's body at `/tokenize`, as vLLM does. */
  readonly countsPrompts?: boolean;
  /** Its usage counts one choice of several, so it gets requests for one only. */
  readonly countsOneChoice?: boolean;
  /** The operator lets accounts share the prefix cache of this deployment. */
  readonly sharesPrefixCache?: boolean;
}

export interface DataPathStats {
  readonly inFlight: number;
  readonly waiting: number;
  readonly tokensPerSecond: number;
  /** Output tokens seen and requests ended so far: their change is progress. */
  readonly tokensTotal?: number;
  readonly finished?: number;
  readonly turnedAway?: number;
  /** Time in the queue, over requests of the last 15 s; undefined: there were none. */
  readonly queueP95Ms?: number | undefined;
  /** Time from arrival to first token of streamed requests, likewise. */
  readonly ttftP95Ms?: number | undefined;
  readonly promptTokens?: number;
  /** Time since the last request began or ended here; undefined: there was none. */
  readonly unusedMs?: number | undefined;
}

export interface DataPath {
  setTargets(targets: readonly RouteTarget[]): void;
  stats(id: InstanceId): DataPathStats;
  markDraining(id: InstanceId): void;
  /** Refuses new requests as not ready until `resume`. False, and no change, while any runs or waits. */
  rest(id: InstanceId): boolean;
  resume(id: InstanceId): void;
  /** Called when the last running request of an instance has ended. */
  onIdle(listener: () => void): void;
  /** Its process died, or is stopped because it is stuck. Returns the deaths at which a recognised request was present; 0: none. */
  serverEnded(id: InstanceId): number;
  /** The instance was removed from this host: `serverEnded` will not be called for it. */
  forget(id: InstanceId): void;
  drained(id: InstanceId, deadlineMs: number, signal: AbortSignal): Promise<boolean>;
  /** Ends the requests that still run; resolves once their usage is recorded, or within seconds. Must not reject. */
  cut(id: InstanceId): Promise<void>;
}

/** Something that makes a GPU unfit for work. */
export interface GpuFault {
  readonly uuid: string;
  /** Id of this occurrence. */
  readonly id: string;
  readonly reason: string;
}

/** Checks the given GPUs now; must not reject. */
export type GpuFaults = (uuids: readonly string[], signal: AbortSignal) => Promise<readonly GpuFault[]>;

/** For metrics: must not throw or wait. */
export interface ReconcileMetrics {
  phase(id: InstanceId, deployId: DeploymentId, phase: InstancePhase): void;
  took(part: "pull" | "download" | "create" | "load" | "ready" | "wake", seconds: number): void;
  downloadFailed(code: string): void;
  restarted(deployId: DeploymentId, reason: RestartReason): void;
  gone(id: InstanceId): void;
}

/** A process or container that serves on GPUs of this host. */
export interface Serving {
  readonly instanceId: InstanceId;
  readonly deployId: DeploymentId;
  /** New after every start. */
  readonly identity: string;
  /** It sleeps or wakes. */
  readonly isAsleep?: boolean;
}

/** Measures GPU time. Receives the whole set at every pass; must not throw or wait. */
export interface GpuMeter {
  look(serving: readonly Serving[]): void;
}
