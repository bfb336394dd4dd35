// Which traces are exported. A client decides about its own only within limits: otherwise one customer could have every request
// exported, or fill the collector.
import type { TraceContext } from "./trace-context.ts";
import type { TracingSettings } from "./tracing-settings.ts";

export interface TraceSampler {
  /** A new trace. */
  samplesNew(): boolean;
  /** A request of a client. */
  samplesClient(client: TraceContext | undefined): boolean;
}

/** `clock`: monotonic ms. `random`: 0 to below 1. */
export function createTraceSampler(
  { ratio, isParentBased, clientsPerMinute }: TracingSettings,
  clock: () => number,
  random: () => number = Math.random,
): TraceSampler {
  let left = clientsPerMinute;
  let filledMs = clock();

  function takeOne(): boolean {
    const nowMs = clock();
    left = Math.min(clientsPerMinute, left + ((nowMs - filledMs) * clientsPerMinute) / 60_000);
    filledMs = nowMs;
    if (left < 1) return false;
    left -= 1;
    return true;
  }

  // Not by the trace id as OpenTelemetry's ratio sampler: clients choose theirs.
  const byRatio = () => ratio >= 1 || (ratio > 0 && random() < ratio);
  return {
    samplesNew: byRatio,
    samplesClient(client) {
      if (!client || !isParentBased) return byRatio();
      return client.isSampled && (byRatio() || takeOne());
    },
  };
}
