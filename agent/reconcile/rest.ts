// Decides which instances of this host sleep and which wake, so that those awake fit on their GPUs. Pure.
// INVARIANTS: memory counts as free once an engine confirmed its sleep to this agent; a busy instance is never put to sleep; those awake
// on one GPU are of one account; starts and wakes are served in the order in which they began to wait, so a later one takes no GPU of an
// earlier one; an instance to which callers return soon stays awake for a minimum time, which bounds how often two of them swap; each does
// until the request that woke it has arrived.
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
/** GPU memory of a process whose model sleeps: the driver's context. */
const asleepGpuBytes = 512 * 1024 * 1024;

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
  readonly #held = new Shares();
  /** The same once those that are on their way out have left. */
  readonly #lasting = new Shares();
  /** GPUs for which an earlier one waits. */
  readonly #blocked = new Set<string>();
  /** GPUs of instances that never sleep and stay. */
  readonly #permanent = new Set<string>();
  readonly #chosen = new Set<InstanceId>();

  constructor(view: Seen, specs: ReadonlyMap<InstanceId, InstanceSpec__Output>, tombstones: ReadonlySet<InstanceId>) {
    this.#view = view;
    this.#specs = specs;
    for (const id of new Set([...specs.keys(), ...view.observed.keys()])) {
      const [spec, seen, facts] = [specs.get(id), view.observed.get(id), view.facts.get(id)];
      const sleepingOn = seen?.state === "running" && spec ? spec.gpuUuids : [];
      if (!isAwake(seen, facts)) {
        for (const gpu of sleepingOn) this.#held.addAsleep(gpu);
        if (!tombstones.has(id)) for (const gpu of sleepingOn) this.#lasting.addAsleep(gpu);
        continue;
      }
      if (facts?.busy?.kind === "sleep" && !tombstones.has(id))
        for (const gpu of sleepingOn) this.#lasting.addAsleep(gpu);
      const isLeaving = tombstones.has(id) || facts?.busy?.kind === "sleep" || facts?.busy?.kind === "stop";
      for (const gpu of spec?.gpuUuids ?? seen?.claimedGpus ?? []) {
        this.#held.add(gpu, spec);
        if (!isLeaving) this.#lasting.add(gpu, spec);
        if (!isLeaving && !maySleep(spec)) this.#permanent.add(gpu);
      }
    }
  }

  fits(spec: InstanceSpec__Output): boolean {
    return spec.gpuUuids.every((gpu) => !this.#blocked.has(gpu) && this.#fitsIn(this.#held, gpu, spec));
  }

  take(spec: InstanceSpec__Output): void {
    for (const gpu of spec.gpuUuids) {
      this.#held.add(gpu, spec);
      this.#lasting.add(gpu, spec);
    }
  }

  /** False if an instance that never sleeps holds a GPU of this one, and stays. */
  mayBecomeFree(spec: InstanceSpec__Output): boolean {
    return spec.gpuUuids.every((gpu) => !this.#permanent.has(gpu));
  }

  /**
   * Returns the idle ones that must sleep; none if that is not needed, or not enough while those of its own account are awake. Later
   * ones get nothing of these GPUs.
   */
  victimsFor(spec: InstanceSpec__Output): readonly InstanceId[] {
    const isFirst = spec.gpuUuids.every((gpu) => !this.#blocked.has(gpu));
    for (const gpu of spec.gpuUuids) this.#blocked.add(gpu);
    if (!isFirst) return [];
    const left = this.#lasting.copy();
    // Its busy ones sleep later: until then none of that account wakes, because this one waits. One that never sleeps keeps the GPU.
    const isOfOther = this.mayBecomeFree(spec) && spec.gpuUuids.some((gpu) => left.hasOther(gpu, spec.owner));
    const victims: InstanceId[] = [];
    for (const victim of this.#idleOn(spec.gpuUuids)) {
      if (spec.gpuUuids.every((gpu) => this.#fitsIn(left, gpu, spec))) break;
      // An idle one on a GPU that has enough already would lose its memory in vain.
      if (!victim.gpuUuids.some((gpu) => spec.gpuUuids.includes(gpu) && !this.#fitsIn(left, gpu, spec))) continue;
      victims.push(victim.instanceId as InstanceId);
      for (const gpu of victim.gpuUuids) {
        left.remove(gpu, victim);
        left.addAsleep(gpu);
      }
    }
    if (!isOfOther && !spec.gpuUuids.every((gpu) => this.#fitsIn(left, gpu, spec))) return [];
    for (const id of victims) this.#chosen.add(id);
    return victims;
  }

  #fitsIn(shares: Shares, gpu: string, spec: InstanceSpec__Output): boolean {
    if (shares.hasOther(gpu, spec.owner)) return false;
    const [own, share] = [shares.of(gpu, spec.owner), shareOf(spec)];
    // Alone it takes what those asleep leave.
    if (own <= tolerance) return true;
    if (own + share > 1 + tolerance) return false;
    const others = shares.asleepOn(gpu) - Number(this.#isAsleep(spec));
    const gpuBytes = Number(spec.gpuMemoryBytes) / share;
    return own + share + (others * asleepGpuBytes) / gpuBytes <= 1 + tolerance;
  }

  #isAsleep({ instanceId }: InstanceSpec__Output): boolean {
    const id = instanceId as InstanceId;
    return isConfirmedAsleep(this.#view.observed.get(id), this.#view.facts.get(id));
  }

  /** The least recently used first. */
  #idleOn(gpus: readonly string[]): readonly InstanceSpec__Output[] {
    const view = this.#view;
    return [...this.#specs.values()]
      .filter((spec) => spec.gpuUuids.some((gpu) => gpus.includes(gpu)))
      .filter(({ instanceId }) => !this.#chosen.has(instanceId as InstanceId))
      .flatMap((spec) => {
        const idleMs = idleMsOf(view, spec.instanceId as InstanceId, spec);
        return idleMs === undefined ? [] : [{ spec, idleMs }];
      })
      .sort((a, b) => b.idleMs - a.idleMs || (a.spec.instanceId < b.spec.instanceId ? -1 : 1))
      .map(({ spec }) => spec);
  }
}

/** Shares of GPUs by the account that has them, and the instances that sleep there. */
class Shares {
  readonly #byGpu = new Map<string, Map<string, number>>();
  readonly #asleep = new Map<string, number>();

  of(gpu: string, owner: string): number {
    return this.#byGpu.get(gpu)?.get(owner) ?? 0;
  }

  hasOther(gpu: string, owner: string): boolean {
    return [...(this.#byGpu.get(gpu) ?? [])].some(([other, share]) => other !== owner && share > tolerance);
  }

  /** `spec` undefined: an instance that is not desired has all of it. */
  add(gpu: string, spec: InstanceSpec__Output | undefined): void {
    this.#change(gpu, spec?.owner ?? "", shareOf(spec));
  }

  remove(gpu: string, spec: InstanceSpec__Output): void {
    this.#change(gpu, spec.owner, -shareOf(spec));
  }

  asleepOn(gpu: string): number {
    return this.#asleep.get(gpu) ?? 0;
  }

  addAsleep(gpu: string): void {
    add(this.#asleep, gpu, 1);
  }

  copy(): Shares {
    const copied = new Shares();
    for (const [gpu, count] of this.#asleep) copied.#asleep.set(gpu, count);
    for (const [gpu, shares] of this.#byGpu) copied.#byGpu.set(gpu, new Map(shares));
    return copied;
  }

  #change(gpu: string, owner: string, amount: number): void {
    const shares = this.#byGpu.get(gpu) ?? new Map<string, number>();
    add(shares, owner, amount);
    this.#byGpu.set(gpu, shares);
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

function add(to: Map<string, number>, key: string, amount: number): void {
  to.set(key, (to.get(key) ?? 0) + amount);
}
