// Knowledge of this agent about one instance beyond the driver's: attempts, back-off, health. Immutable values, deliberately
// lost at the agent's end: everything that must survive is in the containers and the desired state.

import type { FormatSkill } from "../../proto/api-formats.ts";
import type { DesiredState__Output } from "../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import type { InstanceId } from "../../proto/ids.ts";
import type { Crashes } from "./back-off.ts";
import type { Observed } from "./driver.ts";
import type { Failure } from "./failure.ts";
import { newPulse, type Pulse } from "./progress.ts";

type WeightsFact =
  | { readonly kind: "unknown" }
  | { readonly kind: "fetching"; readonly done: number; readonly total: number }
  /** Undefined for an engine without weights. */
  | { readonly kind: "here"; readonly modelPath: string | undefined; readonly draftPath?: string | undefined };

/** One process or container from when this agent first saw it alive. */
export interface Life {
  readonly identity: string;
  readonly sinceMs: number;
  readonly progressAtMs: number;
  readonly progress: string;
  readonly isReady: boolean;
  readonly contextLength: number;
  /** Formats besides chat that it speaks; undefined before it was asked. */
  readonly formats?: readonly FormatSkill[] | undefined;
  /** Requests that an external server takes at once, as it last reported. */
  readonly serverBatchSize?: number | undefined;
  /** Probes in a row that failed since it was ready. */
  readonly failures: number;
  readonly nextProbeMs: number;
  readonly trouble: string;
  /** Why its container does not run yet; undefined: it does, or nothing is known. */
  readonly waitingFor?: string | undefined;
  /** The furthest step of its start that was seen. */
  readonly step: number;
  readonly isFrozen: boolean;
  /** Its memory is given up; the process or container waits for a wake. */
  readonly isAsleep: boolean;
  /** It confirmed a sleep to this agent, and was not woken since. An engine that only reports a sleep may be waking. */
  readonly isSleepConfirmed: boolean;
  /** Since when it serves. */
  readonly readySinceMs: number;
  /** Duration of its last wake; undefined: it was not woken. */
  readonly wakeMs?: number | undefined;
  /** Wakes of this process: each has a fresh engine, without adapters. */
  readonly wakes: number;
  readonly pulse: Pulse;
}

export interface Facts {
  /** Generation of the specification to which attempts and failure refer. */
  readonly generation: number;
  readonly beganMs: number;
  /** Running step; at most one besides a probe. */
  readonly busy: { readonly kind: string; readonly generation: number } | undefined;
  readonly isProbing: boolean;
  readonly weights: WeightsFact;
  readonly crashes: Crashes;
  /** Crashes caused by a request: they delay the next starts and do not count against the limit. */
  readonly crashesByRequest: Crashes;
  readonly restarts: number;
  readonly notBeforeMs: number;
  /** Terminal until a newer generation arrives. */
  readonly failure: Failure | undefined;
  readonly lastCrash: Failure | undefined;
  readonly waitingFor: string | undefined;
  /** Since when a start or a wake waits until others sleep; undefined: it does not. */
  readonly lacksMemorySinceMs: number | undefined;
  /** Unix ms of control-plane time of the last sleep: an earlier request does not wake it. */
  readonly sleptAtMs: number;
  /** The same of its last use before that sleep; 0: none is known. */
  readonly usedAtMs: number;
  /** The same of the first caller that has waited since that sleep; undefined: there was none. */
  readonly returnedAtMs: number | undefined;
  /** Stopped to save memory, by an agent whose engine cannot sleep in place: started again on demand. */
  readonly isStoppedAsleep: boolean;
  readonly life: Life | undefined;
  readonly wasStartedHere: boolean;
  /** Ids of the faults that its GPUs had at its start: they are not the cause of its end. */
  readonly oldGpuFaults: readonly string[];
  readonly hasServed: boolean;
  /** Identity whose end was counted, or that this agent stopped. */
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
    crashesByRequest: [],
    restarts: 0,
    notBeforeMs: 0,
    failure: undefined,
    lastCrash: undefined,
    waitingFor: undefined,
    lacksMemorySinceMs: undefined,
    sleptAtMs: 0,
    usedAtMs: 0,
    returnedAtMs: undefined,
    isStoppedAsleep: false,
    life: undefined,
    wasStartedHere: false,
    oldGpuFaults: [],
    hasServed: false,
    countedExit: undefined,
  };
}

export function forGeneration(facts: Facts, generation: number, nowMs: number): Facts {
  if (generation <= facts.generation) return facts;
  const { life, busy, isProbing, restarts, sleptAtMs, usedAtMs, returnedAtMs } = facts;
  return { ...freshFacts(generation, nowMs), life, busy, isProbing, restarts, sleptAtMs, usedAtMs, returnedAtMs };
}

export function sighted(facts: Facts, seen: Observed, nowMs: number): Facts {
  if (seen.state === "exited") return facts;
  const isStarting = seen.state === "starting";
  const waitingFor = isStarting ? seen.waitingFor : undefined;
  const step = isStarting ? (seen.step ?? 0) : Number.MAX_SAFE_INTEGER;
  if (facts.life?.identity === seen.identity) {
    const { life } = facts;
    const isFurther = step > life.step;
    if (!isFurther && life.waitingFor === waitingFor) return facts;
    const trouble = life.waitingFor === waitingFor ? life.trouble : (waitingFor ?? "");
    const progress = isFurther ? { step, progressAtMs: nowMs } : {};
    return { ...facts, life: { ...life, waitingFor, trouble, ...progress } };
  }
  const life: Life = {
    identity: seen.identity,
    sinceMs: nowMs,
    progressAtMs: nowMs,
    progress: "",
    isReady: false,
    contextLength: 0,
    failures: 0,
    nextProbeMs: nowMs,
    trouble: waitingFor ?? "",
    waitingFor,
    step,
    isFrozen: false,
    isAsleep: false,
    isSleepConfirmed: false,
    readySinceMs: nowMs,
    wakes: 0,
    pulse: newPulse(nowMs),
  };
  return { ...facts, life };
}

export type FactsBook = ReturnType<typeof createFactsBook>;

export function createFactsBook() {
  const book = new Map<InstanceId, Facts>();
  const get = (id: InstanceId) => book.get(id) ?? freshFacts(0, 0);
  return {
    all: book,
    get,
    change(id: InstanceId, change: (facts: Facts) => Facts) {
      // A forgotten instance stays forgotten: ignore a step that ends late.
      const facts = book.get(id);
      if (facts) book.set(id, change(facts));
    },
    update(
      specs: readonly InstanceSpec__Output[],
      tombstones: readonly string[],
      observed: ReadonlyMap<InstanceId, Observed>,
      nowMs: number,
    ) {
      for (const spec of specs) {
        const id = spec.instanceId as InstanceId;
        const generation = Number(spec.generation);
        book.set(id, forGeneration(book.get(id) ?? freshFacts(generation, nowMs), generation, nowMs));
      }
      for (const [id, seen] of observed)
        book.set(id, sighted(book.get(id) ?? freshFacts(seen.generation, nowMs), seen, nowMs));
      const isKnown = new Set<string>([...specs.map((spec) => spec.instanceId), ...tombstones, ...observed.keys()]);
      const forgotten = [...book].filter(([id, facts]) => !facts.busy && !isKnown.has(id)).map(([id]) => id);
      for (const id of forgotten) book.delete(id);
      return forgotten;
    },
  };
}

export interface Use {
  readonly inFlight: number;
  readonly waiting: number;
  /** Time since the last request began or ended; infinite: there was none. */
  readonly unusedMs?: number | undefined;
}

export interface View {
  /** Undefined on a host that has not received a desired state. */
  readonly desired: Pick<DesiredState__Output, "generation" | "instances" | "tombstones"> | undefined;
  readonly observed: ReadonlyMap<InstanceId, Observed>;
  /** One entry per instance in `desired` and `observed`; none for a tombstone whose container was gone when this agent started. */
  readonly facts: ReadonlyMap<InstanceId, Facts>;
  /** Instances whose step ended during the observation, which may be older than it: the next pass decides. */
  readonly unsettled: ReadonlySet<InstanceId>;
  readonly isHeld: boolean;
  /** Use of the instances that may sleep. */
  readonly uses: ReadonlyMap<InstanceId, Use>;
  /** Unix ms. */
  readonly controlTimeMs: number;
  /** Undefined: by the time that its last wake took. */
  readonly minAwakeMs: number | undefined;
  readonly nowMs: number;
}
