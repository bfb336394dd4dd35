// State shared by all requests of the data plane.

import { rmSync } from "node:fs";
import type { Logger } from "pino";
import type { Deadlines } from "../../proto/deadlines.ts";
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
  readonly fault: FaultPoint;
  readonly limits: Limits;
  readonly clock: () => number;
  readonly controlTimeMs: () => number;
  readonly nodeEpoch: () => bigint;
  readonly tenantOf: TenantOf;
  heldBodyBytes: number;
}

type FaultPoint = (point: "after_record") => void;

/**
 * For chaos tests: kills the agent once a usage record is durable and before the gateway receives any byte of the end. `spec`:
 * `after_record`, or `after_record@<file>`: only while that file exists; it is deleted first, so that the next agent lives.
 */
export function faultPoint(spec: string | undefined): FaultPoint {
  if (!spec) return () => {};
  const [name, file] = spec.split("@", 2);
  return (point) => {
    if (point !== name) return;
    if (file) {
      try {
        rmSync(file);
      } catch {
        return;
      }
    }
    process.kill(process.pid, "SIGKILL");
  };
}
