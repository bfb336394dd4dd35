import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { Outcome } from "./store.ts";

export function createWebhookMetrics(registry: Registry) {
  const registers = [registry];
  const deliveries = new Counter({
    name: "stoker_webhook_deliveries_total",
    help: "Attempts to call a webhook by outcome, and calls given up (exhausted)",
    labelNames: ["outcome"] as const,
    registers,
  });
  // Its series begins at 0: Prometheus' `increase` does not count the first value of a series.
  deliveries.inc({ outcome: "exhausted" }, 0);
  const seconds = new Histogram({
    name: "stoker_webhook_attempt_seconds",
    help: "Time an attempt to call a webhook took",
    buckets: [0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 20],
    registers,
  });
  const jobs = new Counter({
    name: "stoker_webhook_jobs_total",
    help: "Runs of requests with a webhook, by how they ended",
    labelNames: ["outcome"] as const,
    registers,
  });
  const oldest = new Gauge({
    name: "stoker_outbox_oldest_age_seconds",
    help: "How long the webhook call that waits longest has been due",
    registers,
  });
  const storedBytes = new Gauge({
    name: "stoker_webhook_kept_bytes",
    help: "Bytes of answers that webhook calls of all accounts keep in the database",
    registers,
  });
  return {
    attempted(outcome: Outcome, took: number): void {
      deliveries.inc({ outcome });
      seconds.observe(took);
    },
    exhausted: (): void => deliveries.inc({ outcome: "exhausted" }),
    ran: (outcome: "succeeded" | "failed" | "requeued"): void => jobs.inc({ outcome }),
    /** Seconds since the oldest due call became due, at the last read. */
    oldestDue: (age: number): void => oldest.set(age),
    /** Bytes kept for all accounts, at the last read. */
    storedBytes: (bytes: number): void => storedBytes.set(bytes),
  };
}

export type WebhookMetrics = ReturnType<typeof createWebhookMetrics>;
