// State shared by all requests of the data plane.
import type { Logger } from "pino";
import type { Deadlines } from "../../proto/deadlines.ts";
import type { FaultPoint } from "../../proto/fault-point.ts";
import type { Tracing } from "../../proto/tracing.ts";
import type { IngressMetrics } from "./ingress-metrics.ts";
import type { Limits } from "./limits.ts";
import type { UsageSpool } from "./spool.ts";
import type { TenantOf } from "./tenant.ts";

export interface Plane {
  readonly spool: UsageSpool;
  readonly log: Logger;
  /** Undefined: traces are off. */
  readonly tracing: Tracing | undefined;
  readonly metrics: IngressMetrics | undefined;
  readonly deadlines: Deadlines;
  /** `after_record`: a usage record is durable, and the gateway has received no byte of the end. */
  readonly fault: FaultPoint<"after_record">;
  readonly limits: Limits;
  readonly clock: () => number;
  readonly controlTimeMs: () => number;
  readonly nodeEpoch: () => bigint;
  readonly tenantOf: TenantOf;
  heldBodyBytes: number;
}
