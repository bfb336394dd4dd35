// Rejects a healthy probe of an engine that generates no tokens.

import { authorizationFor, type EngineAddress } from "../../proto/bearer-secret.ts";
import { boundedText } from "../../proto/bounded-text.ts";
import type { Step } from "./diff.ts";
import type { Health } from "./health.ts";
import type { DataPath } from "./ports.ts";
import { afterLook, type Pulse, silenceOf, type WatchLimits, type Work } from "./progress.ts";

type ProbeStep = Extract<Step, { kind: "probe" }>;

interface Watched {
  readonly health: Health;
  readonly pulse: Pulse;
}

export interface ProgressWatch {
  readonly canary: Canary;
  readonly limits: WatchLimits;
}

interface WatchDeps {
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

/** Returns undefined once the engine replied, otherwise the reason. */
type Canary = (engine: EngineAddress, model: string, signal: AbortSignal) => Promise<string | undefined>;

const answerBytes = 1024 * 1024;

/** Requests one token from the engine directly: it bypasses the gate and is not billed. */
export function createCanary(limitMs = 20_000): Canary {
  return async (engine, model, signal) => {
    try {
      const answer = await fetch(`${engine.origin}/v1/completions`, {
        method: "POST",
        headers: { "content-type": "application/json", "x-stoker-request-id": "canary", ...authorizationFor(engine) },
        body: JSON.stringify({ model, prompt: "a", max_tokens: 1 }),
        redirect: "error",
        signal: AbortSignal.any([signal, AbortSignal.timeout(limitMs)]),
      });
      await boundedText(answer.body, answerBytes);
      // A refusal is a reply too: full, shutting down, or a model without this kind of request.
      const isBroken = answer.status >= 500 && answer.status !== 503;
      return isBroken ? `a request for one token was answered ${answer.status}` : undefined;
    } catch (error) {
      signal.throwIfAborted();
      const isSilent = (error as Error).name === "TimeoutError";
      return isSilent
        ? `a request for one token was not answered within ${limitMs / 1000} s`
        : String((error as Error).message);
    }
  };
}
