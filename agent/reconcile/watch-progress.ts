// Rejects a healthy probe of an engine that generates no tokens.
import type { Canary } from "./canary.ts";
import type { Step } from "./diff.ts";
import type { Health } from "./health.ts";
import type { DataPath } from "./ports.ts";
import { afterLook, type Pulse, silenceOf, type WatchLimits, type Work } from "./progress.ts";

type ProbeStep = Extract<Step, { kind: "probe" }>;

export interface Watched {
  readonly health: Health;
  readonly pulse: Pulse;
}

export interface ProgressWatch {
  readonly canary: Canary;
  readonly limits: WatchLimits;
}

export interface WatchDeps {
  readonly progress: ProgressWatch;
  readonly dataPath: Pick<DataPath, "stats">;
  readonly clock: () => number;
}

export async function watchProgress(
  deps: WatchDeps,
  step: ProbeStep,
  health: Health,
  before: Pulse,
  signal: AbortSignal,
): Promise<Watched> {
  const { spec, seen } = step;
  // A foreign server gets no request that its owner would pay for.
  const isWatched = spec?.engine === "stoker" && (spec.task === "" || spec.task === "text-generation");
  if (health.kind !== "ready" || !isWatched) return { health, pulse: before };
  const work = workOf(health, deps.dataPath.stats(step.id));
  const pulse = afterLook(before, work, deps.clock());
  const silentMs = silenceOf(pulse, work, deps.clock(), deps.progress.limits);
  if (silentMs === undefined) return { health, pulse };
  const trouble = await deps.progress.canary(seen, spec.servedModelName, signal);
  if (trouble === undefined) return { health, pulse: { ...pulse, answeredAtMs: deps.clock() } };
  const what = work.inFlight > 0 ? ` with ${work.inFlight} requests in flight` : "";
  const since = silentMs > 0 ? ` and made no token for ${Math.round(silentMs / 1000)} s${what}` : "";
  return { health: { kind: "bad", isFrozen: true, why: `it answers /health${since}; ${trouble}` }, pulse };
}

function workOf(health: Extract<Health, { kind: "ready" }>, stats: ReturnType<DataPath["stats"]>): Work {
  const { running = 0, tokens = 0 } = health.work ?? {};
  const { inFlight, tokensTotal = 0, finished = 0, promptTokens = 0 } = stats;
  return {
    inFlight: Math.max(inFlight, running),
    promptTokens,
    mark: `${tokens}/${tokensTotal}/${finished}`,
    hasServed: tokens > 0 || tokensTotal > 0,
  };
}
