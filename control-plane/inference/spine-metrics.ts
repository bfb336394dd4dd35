import { Counter, type Registry } from "prom-client";
import { InsufficientFunds } from "../billing/hold.ts";
import { RateLimited } from "../quotas/errors.ts";

export interface SpineMetrics {
  readonly upstreamErrors: Counter<"reason">;
  readonly retries: Counter;
  readonly aborts: Counter<"by">;
  /** A request was not admitted. */
  refused(error: unknown): void;
}

export function createSpineMetrics(registry: Registry): SpineMetrics {
  const registers = [registry];
  const limited = new Counter({
    name: "stoker_rate_limited_total",
    help: "Requests refused by a limit of their account: at once, tokens per minute, money",
    labelNames: ["kind"] as const,
    registers,
  });
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
    refused(error) {
      if (error instanceof RateLimited) limited.inc({ kind: error.params.limit });
      else if (error instanceof InsufficientFunds) limited.inc({ kind: "budget" });
    },
  };
}
