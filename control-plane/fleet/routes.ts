import type { AdapterId, DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";

/** An instance that can serve now. One object per instance, kept over refreshes, so `inFlight` stays true. */
export interface Route {
  readonly instanceId: InstanceId;
  readonly deployId: DeploymentId;
  readonly hostId: HostId;
  /** Origin of the agent's data path. */
  readonly origin: string;
  readonly ticketKey: Buffer;
  readonly maxBatchSize: number;
  /** LoRA adapters that it serves beside its model; absent: none. */
  readonly adapters?: ReadonlySet<AdapterId>;
  /** Requests of this replica on it; moved by the relay alone. */
  inFlight: number;
}

/** The routing table in memory: loaded from PostgreSQL at start, moved by host reports. Unknown state keeps known routes. */
export interface Routes {
  /** Ready instances of live hosts; with an adapter those that hold it. */
  ready(deployment: DeploymentId, adapter?: AdapterId): readonly Route[];
  /** The data path answered (or refused to connect): counts as a sign of life (or of its absence) of that host. */
  sawAnswer(host: HostId): void;
  sawFailure(host: HostId, instance: InstanceId): void;
}
