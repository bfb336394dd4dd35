import { Counter, type Registry } from "prom-client";

export interface SpineMetrics {
  readonly upstreamErrors: Counter<"reason">;
  readonly retries: Counter;
  readonly aborts: Counter<"by">;
}

export function createSpineMetrics(registry: Registry): SpineMetrics {
  const registers = [registry];
  return {
    upstreamErrors: new Counter({
      name: "stoker_gateway_upstream_errors_total",
      help: "Attempts at an instance that failed",
      labelNames: ["reason"] as const,
      registers,
    }),
    retries: new Counter({
      name: "stoker_gateway_retries_total",
      help: "Requests sent to another instance before their first byte",
      registers,
    }),
    aborts: new Counter({
      name: "stoker_stream_aborts_total",
      help: "Answers that ended before they were whole",
      labelNames: ["by"] as const,
      registers,
    }),
  };
}
