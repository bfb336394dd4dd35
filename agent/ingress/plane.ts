// State shared by all requests of the data plane.
import type { Logger } from "pino";
import type { Deadlines } from "../../proto/deadlines.ts";
import type { FaultPoint } from "./fault-point.ts";
import type { IngressMetrics } from "./ingress-metrics.ts";
import type { Limits } from "./limits.ts";
import type { UsageSpool } from "./spool.ts";
import type { TenantOf } from "./tenant.ts";

export interface Plane {
  readonly spool: UsageSpool;
  readonly log: Logger;
  readonly metrics: IngressMetrics | undefined;
  readonly deadlines: Deadlines;
  readonly fault: FaultPoint;
  readonly limits: Limits;
  /** Monotonic ms. */
  readonly clock: () => number;
  /** Unix ms in control-plane time. */
  readonly controlTimeMs: () => number;
  readonly nodeEpoch: () => bigint;
  readonly tenantOf: TenantOf;
  /** Bytes of request bodies held now. */
  heldBodyBytes: number;
}
