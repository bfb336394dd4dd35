// Decides which instances of this host sleep and which wake, so that those awake fit on their GPUs. Pure.
// INVARIANTS: memory counts as free once an engine confirmed its sleep to this agent; a busy instance is never put to sleep; starts and
// wakes are served in the order in which they began to wait, so a later one takes no GPU of an earlier one; an instance to which callers
// return soon stays awake for a minimum time, which bounds how often two of them swap; each does until the request that woke it has arrived.
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import type { InstanceId } from "../../proto/ids.ts";
import type { Observed } from "./driver.ts";
import type { Facts, Life, View } from "./facts.ts";

/** `idle`: it was not used for long. `memory`: another one needs its memory. `unconfirmed`: it only reports that it sleeps. */
export type SleepReason = "idle" | "memory" | "unconfirmed";

export interface Rest {
  readonly sleep: ReadonlyMap<InstanceId, SleepReason>;
  readonly wake: ReadonlySet<InstanceId>;
  /** Starts and wakes that wait for memory. */
  readonly lacking: ReadonlySet<InstanceId>;
}

type Seen = Pick<View, "observed" | "facts" | "unsettled" | "uses" | "controlTimeMs" | "minAwakeMs" | "nowMs">;

/** A request that waits is recorded every five seconds; a report and a desired state take their time. */
const awaitedMs = 15_000;
/** Shares are fractions of one GPU. */
const tolerance = 1e-6;

/** Minimum time awake of an instance that was not woken, and of one whose wake took longer. */
const maxMinAwakeMs = 5_000;

/** At least as long as the wake took: of two instances that swap, at most half of the time goes into it. */
export const minAwakeMsOf = (
  { wakeMs = maxMinAwakeMs }: Pick<Life, "wakeMs">,
  { minAwakeMs }: Pick<View, "minAwakeMs">,
): number => minAwakeMs ?? Math.min(maxMinAwakeMs, wakeMs);

/** Part of the minimum time awake for which an instance was unused before it gives way early. */
const unusedPart = 1 / 8;

/**
 * Time without use after which it may give its memory to another one, although its minimum time awake is not over: its last
 * caller did not return soon, so it is unlikely that this one does. Undefined: it keeps that time.
 */
export function givesWayMsOf(
  { life, usedAtMs, returnedAtMs }: Facts,
  view: Pick<View, "minAwakeMs">,
): number | undefined {
  if (!life || view.minAwakeMs !== undefined) return undefined;
  const minAwakeMs = minAwakeMsOf(life, view);
  const hasReturned = returnedAtMs !== undefined && returnedAtMs - usedAtMs < minAwakeMs;
  return hasReturned ? undefined : minAwakeMs * unusedPart;
}

export const maySleep = (spec: InstanceSpec__Output | undefined): spec is InstanceSpec__Output =>
  spec !== undefined && spec.sleepAfterSeconds > 0;

/** A request has waited for it since it went to sleep. */
export function isAwaited({ awaitedAtMs }: InstanceSpec__Output, { sleptAtMs }: Facts, controlTimeMs: number): boolean {
  const atMs = Number(awaitedAtMs);
  return atMs > sleptAtMs && controlTimeMs - atMs < awaitedMs;
}

/** `starting`: instances that would be started now. `tombstones`: instances that are removed. */
export function planRest(
  view: Seen,
  specs: ReadonlyMap<InstanceId, InstanceSpec__Output>,
  tombstones: ReadonlySet<InstanceId>,
  starting: readonly InstanceSpec__Output[],
): Rest {
  const sleep = new Map<InstanceId, SleepReason>();
  const wake = new Set<InstanceId>();
  const lacking = new Set<InstanceId>();
  const capacity = new Capacity(view, specs, tombstones);
  const queue = [...starting, ...wakers(view, specs, tombstones)].sort(byWait(view));
  for (const spec of queue) {
    const id = spec.instanceId as InstanceId;
    if (capacity.fits(spec)) {
      capacity.take(spec);
      if (!starting.includes(spec)) wake.add(id);
      continue;
    }
    // Only others that sleep or leave make memory free; gpu-claims.ts decides about the rest.
    if (starting.includes(spec) && !capacity.mayBecomeFree(spec)) {
      capacity.take(spec);
      continue;
    }
    lacking.add(id);
    for (const victim of capacity.victimsFor(spec)) sleep.set(victim, "memory");
  }
  for (const [id, spec] of specs) {
    if (sleep.has(id) || tombstones.has(id)) continue;
    if (isIdleLong(view, id, spec)) sleep.set(id, "idle");
    // An agent that stopped may have left it waking, and it reports a sleep until it is awake.
    else if (isUnconfirmed(view, id)) sleep.set(id, "unconfirmed");
  }
  return { sleep, wake, lacking };
}

function wakers(
  view: Seen,
  specs: ReadonlyMap<InstanceId, InstanceSpec__Output>,
  tombstones: ReadonlySet<InstanceId>,
): InstanceSpec__Output[] {
  return [...specs].flatMap(([id, spec]) => {
    const facts = view.facts.get(id);
    const isAsleep = isConfirmedAsleep(view.observed.get(id), facts);
    if (!facts || !isAsleep || facts.busy || tombstones.has(id) || view.unsettled.has(id)) return [];
    // Without the setting, or changed to another specification, it serves as any other does.
    return !maySleep(spec) || isAwaited(spec, facts, view.controlTimeMs) ? [spec] : [];
  });
}

const byWait = (view: Seen) => (a: InstanceSpec__Output, b: InstanceSpec__Output) => {
  const sinceOf = ({ instanceId }: InstanceSpec__Output) =>
    view.facts.get(instanceId as InstanceId)?.lacksMemorySinceMs ?? view.nowMs;
  return sinceOf(a) - sinceOf(b) || (a.instanceId < b.instanceId ? -1 : 1);
};

class Capacity {
  readonly #view: Seen;
  readonly #specs: ReadonlyMap<InstanceId, InstanceSpec__Output>;
  /** Shares in use now, by GPU. */
  readonly #held = new Map<string, number>();
  /** The same once those that are on their way out have left. */
  readonly #lasting = new Map<string, number>();
  /** GPUs for which an earlier one waits. */
  readonly #blocked = new Set<string>();
  /** GPUs of instances that never sleep and stay. */
  readonly #permanent = new Set<string>();
  readonly #chosen = new Set<InstanceId>();
  /** Shares of all GPUs that an account's instances have awake. */
  readonly #byOwner = new Map<string, number>();

  constructor(view: Seen, specs: ReadonlyMap<InstanceId, InstanceSpec__Output>, tombstones: ReadonlySet<InstanceId>) {
    this.#view = view;
    this.#specs = specs;
    for (const id of new Set([...specs.keys(), ...view.observed.keys()])) {
      const [spec, seen, facts] = [specs.get(id), view.observed.get(id), view.facts.get(id)];
      if (!isAwake(seen, facts)) continue;
      const isLeaving = tombstones.has(id) || facts?.busy?.kind === "sleep" || facts?.busy?.kind === "stop";
      for (const gpu of spec?.gpuUuids ?? seen?.claimedGpus ?? []) {
        add(this.#held, gpu, shareOf(spec));
        if (!isLeaving) add(this.#lasting, gpu, shareOf(spec));
        if (!isLeaving && !maySleep(spec)) this.#permanent.add(gpu);
      }
      if (spec) add(this.#byOwner, spec.owner, shareOf(spec) * spec.gpuUuids.length);
    }
  }

  fits(spec: InstanceSpec__Output): boolean {
    return spec.gpuUuids.every((gpu) => !this.#blocked.has(gpu) && fitsIn(this.#held, gpu, spec));
  }

  take(spec: InstanceSpec__Output): void {
    for (const gpu of spec.gpuUuids) {
      add(this.#held, gpu, shareOf(spec));
      add(this.#lasting, gpu, shareOf(spec));
    }
  }

  /** False if an instance that never sleeps holds a GPU of this one, and stays. */
  mayBecomeFree(spec: InstanceSpec__Output): boolean {
    return spec.gpuUuids.every((gpu) => !this.#permanent.has(gpu));
  }

  /** Returns the idle ones that must sleep; none if that is not enough or not needed. Later ones get nothing of these GPUs. */
  victimsFor(spec: InstanceSpec__Output): readonly InstanceId[] {
    const isFirst = spec.gpuUuids.every((gpu) => !this.#blocked.has(gpu));
    for (const gpu of spec.gpuUuids) this.#blocked.add(gpu);
    if (!isFirst) return [];
    const left = new Map(this.#lasting);
    const victims: InstanceId[] = [];
    for (const victim of this.#idleOn(spec.gpuUuids)) {
      if (spec.gpuUuids.every((gpu) => fitsIn(left, gpu, spec))) break;
      // An idle one on a GPU that has enough already would lose its memory in vain.
      if (!victim.gpuUuids.some((gpu) => spec.gpuUuids.includes(gpu) && !fitsIn(left, gpu, spec))) continue;
      victims.push(victim.instanceId as InstanceId);
      for (const gpu of victim.gpuUuids) add(left, gpu, -shareOf(victim));
    }
    if (!spec.gpuUuids.every((gpu) => fitsIn(left, gpu, spec))) return [];
    for (const id of victims) this.#chosen.add(id);
    return victims;
  }

  /** Accounts with most awake first, so that none always loses; the least recently used first among theirs. */
  #idleOn(gpus: readonly string[]): readonly InstanceSpec__Output[] {
    const view = this.#view;
    return [...this.#specs.values()]
      .filter((spec) => spec.gpuUuids.some((gpu) => gpus.includes(gpu)))
      .filter(({ instanceId }) => !this.#chosen.has(instanceId as InstanceId))
      .flatMap((spec) => {
        const idleMs = idleMsOf(view, spec.instanceId as InstanceId, spec);
        return idleMs === undefined ? [] : [{ spec, idleMs, owned: this.#byOwner.get(spec.owner) ?? 0 }];
      })
      .sort((a, b) => b.owned - a.owned || b.idleMs - a.idleMs || (a.spec.instanceId < b.spec.instanceId ? -1 : 1))
      .map(({ spec }) => spec);
  }
}

/** It has its memory, or is about to. */
function isAwake(seen: Observed | undefined, facts: Facts | undefined): boolean {
  if (facts?.busy?.kind === "start" || facts?.busy?.kind === "wake") return true;
  if (!seen || seen.state === "exited") return false;
  return !isConfirmedAsleep(seen, facts);
}

const isConfirmedAsleep = (seen: Observed | undefined, facts: Facts | undefined): boolean =>
  facts?.life?.isAsleep === true && facts.life.isSleepConfirmed && facts.life.identity === seen?.identity;

function isUnconfirmed(view: Seen, id: InstanceId): boolean {
  const [seen, facts] = [view.observed.get(id), view.facts.get(id)];
  if (seen?.state !== "running" || !facts || facts.busy || view.unsettled.has(id)) return false;
  return facts.life?.identity === seen.identity && facts.life.isAsleep && !facts.life.isSleepConfirmed;
}

/** Time without use of an instance that may be put to sleep now; otherwise undefined. */
function idleMsOf(view: Seen, id: InstanceId, spec: InstanceSpec__Output): number | undefined {
  const [seen, facts, use] = [view.observed.get(id), view.facts.get(id), view.uses.get(id)];
  const life = facts?.life;
  if (!maySleep(spec) || spec.draining || !facts || facts.busy || view.unsettled.has(id)) return undefined;
  if (seen?.state !== "running" || life?.identity !== seen.identity || !life.isReady) return undefined;
  const awakeMs = view.nowMs - life.readySinceMs;
  if (!use || use.inFlight > 0 || use.waiting > 0) return undefined;
  const isUnused = use.unusedMs === undefined || use.unusedMs > awakeMs;
  if (awakeMs < minAwakeMsOf(life, view)) {
    const givesWayMs = givesWayMsOf(facts, view);
    if (isUnused || givesWayMs === undefined || (use.unusedMs ?? 0) < givesWayMs) return undefined;
  }
  // The request that woke it is still on its way.
  if (isUnused && Number(spec.awaitedAtMs) > facts.sleptAtMs && awakeMs < awaitedMs) return undefined;
  return Math.min(awakeMs, use.unusedMs ?? awakeMs);
}

function isIdleLong(view: Seen, id: InstanceId, spec: InstanceSpec__Output): boolean {
  const idleMs = idleMsOf(view, id, spec);
  return idleMs !== undefined && idleMs >= spec.sleepAfterSeconds * 1000;
}

/** Share of each of its GPUs. */
function shareOf(spec: InstanceSpec__Output | undefined): number {
  return spec && Number(spec.gpuMemoryBytes) > 0 && spec.gpuShare > 0 ? Math.min(1, spec.gpuShare) : 1;
}

const fitsIn = (held: ReadonlyMap<string, number>, gpu: string, spec: InstanceSpec__Output) =>
  (held.get(gpu) ?? 0) + shareOf(spec) <= 1 + tolerance;

function add(to: Map<string, number>, key: string, amount: number): void {
  to.set(key, (to.get(key) ?? 0) + amount);
}
