// Metrics of the edge. Children are created once per label set: a label lookup per request would cost too much on the hot path.
import { Gauge, type Registry } from "prom-client";
import type { Trace } from "../../inference/completion.ts";
import type { ErrorKind } from "../../service-error.ts";
import { BucketHistogram, type Observer } from "./bucket-histogram.ts";

/** Metrics of one route. Its pattern is the label, never a URL. */
export interface RouteMeter {
  readonly method: string;
  readonly route: string;
  inFlight: number;
  ended(status: number, seconds: number): void;
}

export type FailureLabel = ErrorKind | "client_gone";

export interface EdgeMetrics {
  meter(method: string, route: string): RouteMeter;
  /** Counts a generation that ended; `error` undefined: it succeeded. Codes are not a label, because engines send their own. */
  served(trace: Trace, seconds: number, error: FailureLabel | undefined): void;
}

/** Fewer than those of generations, because every endpoint and status has its own series. */
const responses = [0.05, 0.5, 5];
/** Refusals have no buckets: their count and total time suffice. */
const refusals: readonly number[] = [];
const durations = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const firstTokens = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
];
const perToken = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5];
const maxModels = 200;
/** Maximum number of combinations of model, operation and error; beyond it the model is `_other`. */
const maxFailures = 100;

interface ModelMeters {
  readonly duration: Observer;
  readonly firstToken: Observer;
  readonly perToken: Observer;
}

export function createEdgeMetrics(registry: Registry): EdgeMetrics {
  const histogram = (name: string, help: string, buckets: readonly number[]) =>
    new BucketHistogram(registry, name, help, buckets);
  const http = histogram(
    "http_request_duration_seconds",
    "Time from a request's headers to the end of its answer; statuses from 400 on have no buckets but +Inf",
    responses,
  );
  const meters: RouteMeter[] = [];
  new Gauge({
    name: "http_requests_in_flight",
    help: "Requests being answered now",
    labelNames: ["route"] as const,
    registers: [registry],
    collect() {
      const sums = new Map<string, number>();
      for (const { route, inFlight } of meters) sums.set(route, (sums.get(route) ?? 0) + inFlight);
      for (const [route, sum] of sums) this.set({ route }, sum);
    },
  });
  const duration = histogram("gen_ai_server_request_duration_seconds", "Time of a generation", durations);
  const firstToken = histogram("gen_ai_server_time_to_first_token_seconds", "Time to the first data", firstTokens);
  const tokenTime = histogram(
    "gen_ai_server_time_per_output_token_seconds",
    "Time per token after the first",
    perToken,
  );

  const models = new Set<string>();
  const children = new Map<string, ModelMeters>();
  const failures = new Set<string>();

  /** The first models seen get a series each, all others share one. */
  function modelLabel(model: string | undefined): string {
    if (model === undefined) return "_unknown";
    if (!models.has(model)) {
      if (models.size >= maxModels) return "_other";
      models.add(model);
    }
    return model;
  }

  /** The first failures seen have the model as a label, all others only operation and error. */
  function failedModelLabel(model: string, operation: string, error: string): string {
    const failure = `${operation} ${error} ${model}`;
    if (!failures.has(failure)) {
      if (failures.size >= maxFailures) return "_other";
      failures.add(failure);
    }
    return model;
  }

  function metersOf(trace: Trace, error: string): ModelMeters {
    const resolved = modelLabel(trace.model);
    const model = error === "" ? resolved : failedModelLabel(resolved, trace.operation ?? "", error);
    const key = `${trace.operation} ${error} ${model}`;
    let found = children.get(key);
    if (!found) {
      const labels = {
        gen_ai_operation_name: trace.operation ?? "_unknown",
        gen_ai_provider_name: "stoker",
        gen_ai_request_model: model,
        gen_ai_response_model: model,
      };
      found = {
        duration: duration.child(error === "" ? labels : { ...labels, error_type: error }),
        firstToken: firstToken.child(labels),
        perToken: tokenTime.child(labels),
      };
      children.set(key, found);
    }
    return found;
  }

  return {
    meter(method, route) {
      const meter = createRouteMeter(http, method, route);
      meters.push(meter);
      return meter;
    },
    served(trace, seconds, error) {
      const meters = metersOf(trace, error ?? "");
      meters.duration.observe(seconds);
      if (trace.firstByteAtMs === 0) return;
      const first = (trace.firstByteAtMs - trace.startedMs) / 1000;
      if (trace.isStream) meters.firstToken.observe(first);
      const output = trace.usage?.output ?? 0;
      if (trace.isStream && output > 1) meters.perToken.observe((seconds - first) / (output - 1));
    },
  };
}

function createRouteMeter(http: BucketHistogram, method: string, route: string): RouteMeter {
  const byStatus = new Map<number, Observer>();
  return {
    method,
    route,
    inFlight: 0,
    ended(status, seconds) {
      let child = byStatus.get(status);
      if (!child) {
        child = http.child({ method, route, status: String(status) }, status < 400 ? responses : refusals);
        byStatus.set(status, child);
      }
      child.observe(seconds);
    },
  };
}
