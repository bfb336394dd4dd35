import type { FormatSkill } from "../../proto/api-formats.ts";
import type { AdapterId, DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";

/** An instance that can serve now. The object is kept across refreshes, so `inFlight` stays correct. */
export interface Route {
  readonly instanceId: InstanceId;
  readonly deployId: DeploymentId;
  readonly hostId: HostId;
  /** Origin of the agent's data path. */
  readonly origin: string;
  readonly ticketKey: Buffer;
  readonly maxBatchSize: number;
  /** LoRA adapters it serves besides its model; undefined: none. */
  readonly adapters?: ReadonlySet<AdapterId>;
  /** Formats besides chat that its engine speaks; undefined: none. */
  readonly formats?: ReadonlySet<FormatSkill>;
  /** Number of this object, never given twice in a process; those of a deployment are mostly neighbours. */
  readonly slot: number;
  /** Sequences of this replica on it; changed only by the router. */
  inFlight: number;
  /** Prompt tokens that it is expected to evaluate for requests of this replica without a first byte; changed only by the router. */
  queuedTokens: number;
}

/**
 * Routing table in memory: loaded from PostgreSQL at start, changed by host reports. Known routes stay while the state is
 * unknown.
 */
export interface Routes {
  /**
   * Ready instances of live hosts; with an adapter, those that hold it. Returns the same array while it has the same members and the
   * table was not read again, so that callers compute what they need of an array once.
   */
  ready(deployment: DeploymentId, adapter?: AdapterId): readonly Route[];
  /** Records a response of the data path as a sign of life, or a refused connection as the opposite. */
  sawAnswer(host: HostId): void;
  sawFailure(host: HostId, instance: InstanceId): void;
}
