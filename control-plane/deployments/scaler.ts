// The loop behind autoscale.ts: every few seconds the load that hosts report becomes a sample of each deployment that may
// scale, and a target that differs is written, guarded by the revision it was decided on. Samples are in memory only: a
// restart, or a second replica, knows less and therefore changes less. Since when nobody used it stands in its row.
import type { Logger } from "pino";
import type { AccountId, DeploymentId, HostId } from "../../proto/ids.ts";
import { type AgedLive, freshMs, type InstanceLive } from "../fleet/live.ts";
import { fullShare, type Sample, type ScaleWindows, scaleTo, scaleWindows } from "./autoscale.ts";
import type { FundsDeps } from "./dedicated-money.ts";
import type { Deployment, Instance } from "./deployment.ts";
import { targetOf } from "./lifecycle.ts";
import { batchSizeOf } from "./standard-args.ts";
import type { DeploymentStore } from "./store.ts";

export interface Scaler {
  /** Returns how many targets it moved. Throws when the database is away. */
  pass(): Promise<number>;
}

/** Callers that wait say so every five seconds. */
const awaitedMs = 8_000;
/** So often it is written down that a deployment is in use. */
const noteEveryMs = 10_000;

interface Known {
  readonly samples: readonly Sample[];
  readonly counts: ReadonlyMap<string, Counts>;
  readonly isUsed: boolean;
  /** Of some instance nobody told what it does: it may be in use. */
  readonly isUnheard: boolean;
  /** Since when nobody used it. */
  readonly idleSinceMs: number;
  /** When each of its instances was first heard of by this control plane; undefined: not yet. */
  readonly heardSinceMs: number | undefined;
  /** When its row was last told of use. */
  readonly notedMs: number;
}

export function createScaler(deps: {
  readonly store: Pick<DeploymentStore, "active" | "change" | "noteUse">;
  /** What every host last told. */
  readonly live: () => Promise<ReadonlyMap<HostId, AgedLive>>;
  readonly funds: FundsDeps["funds"];
  readonly firstMinutes: FundsDeps["firstMinutes"];
  readonly log: Logger;
  /** 1, or less in tests: all windows are that much shorter. */
  readonly clockScale?: number;
  /** Monotonic ms. */
  readonly clock?: () => number;
  /** Unix ms. */
  readonly unixMs?: () => number;
}): Scaler {
  const { store, log } = deps;
  const clock = deps.clock ?? (() => performance.now());
  const unixMs = deps.unixMs ?? Date.now;
  const scale = deps.clockScale ?? 1;
  const known = new Map<DeploymentId, Known>();

  const windowsOf = ({ inactiveShutdown }: Deployment): ScaleWindows => ({
    upMs: scaleWindows.upMs * scale,
    downMs: scaleWindows.downMs * scale,
    idleMs: (inactiveShutdown === null ? scaleWindows.idleMs : inactiveShutdown * 1000) * scale,
  });

  function sample(deployment: Deployment, instances: readonly Instance[], live: ReadonlyMap<HostId, AgedLive>): Known {
    const before = known.get(deployment.id);
    const counts = new Map<string, Counts>();
    let load = 0;
    let isUsed = unixMs() - deployment.awaitedAtMs < awaitedMs;
    let isUnheard = false;
    for (const { id, hostId, phase } of instances) {
      if (phase !== "ready") continue;
      const seen = figuresOf(live.get(hostId), id);
      // Of what is not heard of nobody knows how busy it is: it counts as one instance's worth of work.
      const told = before?.counts.get(id);
      if (!seen) {
        load += batchSizeOf(deployment) * fullShare;
        isUnheard = true;
        if (told) counts.set(id, told);
        continue;
      }
      const now: Counts = { finished: seen.finished ?? 0, turnedAway: seen.turnedAway ?? 0 };
      // One not seen before says how much there was in all, not since when.
      const since = told ?? now;
      counts.set(id, now);
      const here = seen.inFlight + seen.waiting;
      load += here + unmet(here, since, now);
      isUsed ||= here > 0 || now.finished !== since.finished;
    }
    const isStarting = instances.some(({ phase }) => phase !== "ready" && phase !== "failed");
    isUsed ||= isStarting;
    const atMs = clock();
    const keepFromMs = atMs - windowsOf(deployment).downMs;
    const samples = [...(before?.samples ?? []), { atMs, load, isStarting }];
    // One older than the window stays: it says that the window is covered.
    const first = samples.findLastIndex((one) => one.atMs <= keepFromMs);
    const kept = merged(first > 0 ? samples.slice(first) : samples);
    const heardSinceMs = before?.heardSinceMs ?? (isUnheard ? undefined : atMs);
    const idleSinceMs = before?.heardSinceMs === undefined ? idleByItsRow(deployment, atMs) : before.idleSinceMs;
    const isNoted = isUsed && atMs - (before?.notedMs ?? Number.NEGATIVE_INFINITY) >= noteEveryMs * scale;
    const now: Known = {
      ...{ samples: kept, counts, isUsed, isUnheard, heardSinceMs },
      // It counts from the first look that saw nobody.
      idleSinceMs: isUsed || before?.isUsed ? atMs : idleSinceMs,
      notedMs: isNoted ? atMs : (before?.notedMs ?? Number.NEGATIVE_INFINITY),
    };
    known.set(deployment.id, now);
    return now;
  }

  /**
   * Since when nobody used it, for the first look that hears of it. One whose time to sleep has passed while it is awake was
   * watched by nobody meanwhile: its time begins anew.
   */
  function idleByItsRow(deployment: Deployment, atMs: number): number {
    const idleMs = Math.max(0, unixMs() - lastTold(deployment));
    return atMs - (idleMs < windowsOf(deployment).idleMs ? idleMs : 0);
  }

  async function move(deployment: Deployment, from: number, to: number): Promise<boolean> {
    if (to > from && !(await isPaid(deployment, to - from))) {
      log.info(
        { deployment: deployment.id, from, to },
        "more instances are not paid for; it goes on with those it has",
      );
      return false;
    }
    // Moved meanwhile: the next pass looks again.
    if (!(await store.change(deployment.id, deployment.account, deployment.revision, { target: to }))) return false;
    log.info({ deployment: deployment.id, from, to }, "deployment scaled");
    return true;
  }

  async function isPaid(deployment: Deployment, more: number): Promise<boolean> {
    const { account, modelName: model, gpu, numGpus, priceSubject } = deployment;
    const left = await deps.funds(account as AccountId);
    if (left === null) return true;
    const needed = await deps.firstMinutes(priceSubject ?? gpu, numGpus, more, { account, model });
    return needed === 0n || left >= needed;
  }

  return {
    async pass() {
      const all = (await store.active(undefined)).filter(({ deployment }) => mayScale(deployment));
      const ids = new Set(all.map(({ deployment }) => deployment.id));
      for (const id of known.keys()) if (!ids.has(id)) known.delete(id);
      if (all.length === 0) return 0;
      const live = await deps.live();
      let moved = 0;
      const used: DeploymentId[] = [];
      for (const { deployment, instances } of all) {
        const here = instances.filter((one) => !one.isTombstoned);
        const { samples, idleSinceMs, heardSinceMs, notedMs, isUnheard } = sample(deployment, here, live);
        const atMs = samples.at(-1)?.atMs ?? 0;
        // Two looks may see one report: requests between reports show once another has come.
        const isWatched = !isUnheard && heardSinceMs !== undefined && atMs - heardSinceMs >= freshMs * scale;
        if (notedMs === atMs) used.push(deployment.id);
        // While it changes what it runs only more are added: what is replaced is neither idle nor too much.
        const isCalm = deployment.status === "deployed";
        const { minInstances: min, maxInstances: max } = deployment;
        const maxBatchSize = batchSizeOf(deployment);
        const target = targetOf(deployment);
        const windows = windowsOf(deployment);
        const idleForMs = isWatched ? atMs - idleSinceMs : 0;
        const to = scaleTo({ min, max, target, maxBatchSize, samples, windows, idleForMs });
        if (to === target || (to < target && !isCalm)) continue;
        if (await move(deployment, target, to)) moved += 1;
      }
      if (used.length > 0) await store.noteUse(used);
      return moved;
    },
  };
}

/** When it is known to have been in use, or to have become what it is, before this control plane looked: Unix ms. */
const lastTold = ({ usedAtMs, awaitedAtMs, updatedAtMs }: Deployment) => Math.max(usedAtMs, awaitedAtMs, updatedAtMs);

const mayScale = ({ kind, status, minInstances, maxInstances }: Deployment) =>
  kind === "model" && (status === "deployed" || status === "updating") && minInstances < maxInstances;

function figuresOf(aged: AgedLive | undefined, id: Instance["id"]): InstanceLive | undefined {
  if (!aged || aged.ageMs > freshMs) return undefined;
  return aged.live.instances.find((one) => one.instanceId === id);
}

/** Of one instance, since its agent started. */
interface Counts {
  readonly finished: number;
  readonly turnedAway: number;
}

/**
 * The load of those for whom there was no place since the look before: as much of what is there as they were of those that
 * ended. No more than there is, since who is turned away asks again.
 */
function unmet(load: number, since: Counts, now: Counts): number {
  const turnedAway = now.turnedAway - since.turnedAway;
  const ended = now.finished - since.finished;
  // Less than before: the agent counts anew.
  if (turnedAway <= 0 || ended < 0) return 0;
  return load * Math.min(1, turnedAway / Math.max(1, ended));
}

/** Of a run of like samples the first and the last say it all: an idle day costs no memory. */
function merged(samples: readonly Sample[]): Sample[] {
  return samples.filter((one, n) => {
    const [before, after] = [samples[n - 1], samples[n + 1]];
    return !before || !after || !isLike(before, one) || !isLike(one, after);
  });
}

const isLike = (a: Sample, b: Sample) => a.load === b.load && a.isStarting === b.isStarting;
