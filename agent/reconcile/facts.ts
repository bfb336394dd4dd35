// What this agent knows of one instance beyond what its driver shows: attempts, back-off, health. Values, replaced whole;
// lost with the agent's life, on purpose: everything that must last is in the containers and the desired state.
import type { Crashes } from "./back-off.ts";
import type { Observed } from "./driver.ts";
import type { Failure } from "./failure.ts";
import { newPulse, type Pulse } from "./progress.ts";

export type WeightsFact =
  | { readonly kind: "unknown" }
  | { readonly kind: "fetching"; readonly done: number; readonly total: number }
  /** Undefined for an engine without weights. */
  | { readonly kind: "here"; readonly modelPath: string | undefined; readonly draftPath?: string | undefined };

/** One process or container from when this agent first saw it alive. */
export interface Life {
  readonly identity: string;
  readonly sinceMs: number;
  /** When its start last showed progress. */
  readonly progressAtMs: number;
  readonly progress: string;
  readonly isReady: boolean;
  readonly contextLength: number;
  /** Probes in a row that failed since it was ready. */
  readonly failures: number;
  readonly nextProbeMs: number;
  /** What the last failed probe met. */
  readonly trouble: string;
  /** It answers, and makes no tokens. */
  readonly isFrozen: boolean;
  readonly pulse: Pulse;
}

export interface Facts {
  /** Of the specification that attempts and failure speak of. */
  readonly generation: number;
  readonly beganMs: number;
  /** The step that runs now; at most one besides a probe. */
  readonly busy: { readonly kind: string; readonly generation: number } | undefined;
  readonly isProbing: boolean;
  readonly weights: WeightsFact;
  readonly crashes: Crashes;
  readonly restarts: number;
  readonly notBeforeMs: number;
  /** Terminal until a newer generation comes. */
  readonly failure: Failure | undefined;
  readonly lastCrash: Failure | undefined;
  /** Why a start that could go on does not: shown meanwhile. */
  readonly waitingFor: string | undefined;
  readonly life: Life | undefined;
  readonly wasStartedHere: boolean;
  /** Ids of the faults that its GPUs had when it was started here: an end is not blamed on them. */
  readonly oldGpuFaults: readonly string[];
  /** It was ready once, as far as this agent knows. */
  readonly hasServed: boolean;
  /** Identity whose end was counted, or was our own doing. */
  readonly countedExit: string | undefined;
}

export function freshFacts(generation: number, nowMs: number): Facts {
  return {
    generation,
    beganMs: nowMs,
    busy: undefined,
    isProbing: false,
    weights: { kind: "unknown" },
    crashes: [],
    restarts: 0,
    notBeforeMs: 0,
    failure: undefined,
    lastCrash: undefined,
    waitingFor: undefined,
    life: undefined,
    wasStartedHere: false,
    oldGpuFaults: [],
    hasServed: false,
    countedExit: undefined,
  };
}

/** A newer specification begins anew; what runs and is known to be well stays known. */
export function forGeneration(facts: Facts, generation: number, nowMs: number): Facts {
  if (generation <= facts.generation) return facts;
  const { life, busy, isProbing, restarts } = facts;
  return { ...freshFacts(generation, nowMs), life, busy, isProbing, restarts };
}

/** Notes when a new process or container was first seen. */
export function sighted(facts: Facts, seen: Observed, nowMs: number): Facts {
  if (seen.state === "exited" || facts.life?.identity === seen.identity) return facts;
  const life: Life = {
    identity: seen.identity,
    sinceMs: nowMs,
    progressAtMs: nowMs,
    progress: "",
    isReady: false,
    contextLength: 0,
    failures: 0,
    nextProbeMs: nowMs,
    trouble: "",
    isFrozen: false,
    pulse: newPulse(nowMs),
  };
  return { ...facts, life };
}
