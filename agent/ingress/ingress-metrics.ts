import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { EndReason } from "../../proto/usage.ts";
import type { Target } from "./target.ts";

/** Outcome of a request, for metrics and the request line. */
export type Outcome =
  | "ok"
  | "client_gone"
  | "client_gone_waiting"
  | "engine_error"
  | "engine_refused"
  | "engine_timeout"
  | "drained"
  | "not_recorded"
  | "busy"
  | "draining"
  | "not_ready"
  | "unknown_instance"
  | "spool"
  | "ticket"
  | "stops_server"
  | "bad_request";

export const outcomeOf: Readonly<Record<EndReason, Outcome>> = {
  stop: "ok",
  client_gone: "client_gone",
  engine_error: "engine_error",
  engine_timeout: "engine_timeout",
  refused: "engine_refused",
  drained: "drained",
  lost: "engine_error",
};

export type IngressMetrics = ReturnType<typeof ingressMetrics>;

/** Requests in flight and waiting are read at the scrape; the series of an instance go with it. */
export function ingressMetrics(registry: Registry, targets: () => Iterable<Target>) {
  const registers = [registry];
  const labelNames = ["deploy_id", "instance_id"] as const;
  const gauge = (name: string, help: string, read: (target: Target) => number) =>
    new Gauge({
      name,
      help,
      registers,
      labelNames,
      collect() {
        this.reset();
        for (const t of targets()) this.set({ deploy_id: t.spec.deployId, instance_id: t.spec.instanceId }, read(t));
      },
    });
  gauge("stoker_ingress_in_flight", "Requests running on the engine", (t) => t.running.size);
  gauge("stoker_ingress_waiting", "Requests waiting for a place in the engine's batch", (t) => t.waiting);
  gauge("stoker_ingress_max_batch_size", "Requests that may run on the engine at once", (t) => t.spec.maxBatchSize);
  const requests = new Counter({
    name: "stoker_ingress_requests_total",
    help: "Requests of the data path by how they ended",
    registers,
    labelNames: ["outcome"],
  });
  const queue = new Histogram({
    name: "stoker_ingress_queue_seconds",
    help: "Wait for a place in the engine's batch",
    registers,
    buckets: [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60],
  });
  const frames = new Counter({
    name: "stoker_ingress_frames_total",
    help: "Stream frames with generated text that passed",
    registers,
  });
  // Children are looked up once per outcome: hashing labels per request would show on the hot path.
  const children = new Map<Outcome, { inc(): void }>();
  return {
    count: (outcome: Outcome) => {
      let child = children.get(outcome);
      if (!child) {
        child = requests.labels({ outcome });
        children.set(outcome, child);
      }
      child.inc();
    },
    queued: (seconds: number) => queue.observe(seconds),
    frames: (n: number) => frames.inc(n),
  };
}
