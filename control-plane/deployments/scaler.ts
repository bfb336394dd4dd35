// Loop around autoscale.ts: every few seconds the reported load becomes a sample of each scalable deployment, and a changed
// target is written, guarded by the revision it was decided on. Samples are in memory: a restart, or a second replica, has
// fewer samples and therefore changes less. The time of last use is in the deployment's row.
import type { Logger } from "pino";
import type { DeploymentId, HostId } from "../../proto/ids.ts";
import { steadyTime } from "../../proto/steady-time.ts";
import { type AgedLive, freshMs, type InstanceLive } from "../fleet/live.ts";
import { fullShare, type Sample, type ScaleWindows, scaleTo, scaleWindows } from "./autoscale.ts";
import { affords, type FundsDeps } from "./dedicated-money.ts";
import type { Deployment, Instance } from "./deployment.ts";
import { targetOf } from "./lifecycle.ts";
import { batchSizeOf } from "./standard-args.ts";
import type { DeploymentStore } from "./store.ts";

export interface Scaler {
  /** Returns the number of changed targets. Throws when the database is unavailable. */
  pass(): Promise<number>;
}

/** Waiting callers are recorded every five seconds. */
const awaitedMs = 8_000;
/** Interval at which use is written to the row. */
const noteEveryMs = 10_000;

interface Known {
  readonly samples: readonly Sample[];
  readonly counts: ReadonlyMap<string, Counts>;
  readonly isUsed: boolean;
  /** At least one instance has no recent report; treat the deployment as possibly in use. */
  readonly isUnheard: boolean;
  /** Start of the current period without use. */
  readonly idleSinceMs: number;
  /** Time of each instance's first report to this control plane; undefined: none yet. */
  readonly heardSinceMs: number | undefined;
  /** Time of the last write of use. */
  readonly notedMs: number;
}

export function createScaler(deps: {
  readonly store: Pick<DeploymentStore, "active" | "change" | "noteUse">;
  /** Returns every host's last report. */
  readonly live: () => Promise<ReadonlyMap<HostId, AgedLive>>;
  readonly funds: FundsDeps["funds"];
  readonly firstMinutes: FundsDeps["firstMinutes"];
  readonly log: Logger;
  /** 1 in production. Smaller in tests: all windows are shorter by this factor. */
  readonly clockScale?: number;
  /** Monotonic ms. */
  readonly clock?: () => number;
  /** Unix ms. */
  readonly unixMs?: () => number;
}): Scaler {
  const { store, log } = deps;
  const clock = deps.clock ?? (() => performance.now());
  const unixMs = deps.unixMs ?? steadyTime.nowMs;
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
      // An instance without reports has unknown load: count it as fully used.
      const last = before?.counts.get(id);
      if (!seen) {
        load += batchSizeOf(deployment) * fullShare;
        isUnheard = true;
        if (last) counts.set(id, last);
        continue;
      }
      const now: Counts = { finished: seen.finished ?? 0, turnedAway: seen.turnedAway ?? 0 };
      // The first report has totals only; rates need a second one.
      const since = last ?? now;
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
    // Keep one sample older than the window: it proves that the window is covered.
    const first = samples.findLastIndex((one) => one.atMs <= keepFromMs);
    const kept = merged(first > 0 ? samples.slice(first) : samples);
    const heardSinceMs = before?.heardSinceMs ?? (isUnheard ? undefined : atMs);
    const idleSinceMs = before?.heardSinceMs === undefined ? idleSinceOf(deployment, atMs) : before.idleSinceMs;
    const isNoted = isUsed && atMs - (before?.notedMs ?? Number.NEGATIVE_INFINITY) >= noteEveryMs * scale;
    const now: Known = {
      ...{ samples: kept, counts, isUsed, isUnheard, heardSinceMs },
      // Idle time starts at the first pass without use.
      idleSinceMs: isUsed || before?.isUsed ? atMs : idleSinceMs,
      notedMs: isNoted ? atMs : (before?.notedMs ?? Number.NEGATIVE_INFINITY),
    };
    known.set(deployment.id, now);
    return now;
  }

  /**
   * Start of the period without use, at the first pass with reports. If it should have been asleep by now, no scaler was
   * running: the period starts now.
   */
  function idleSinceOf(deployment: Deployment, atMs: number): number {
    const idleMs = Math.max(0, unixMs() - lastUseMs(deployment));
    return atMs - (idleMs < windowsOf(deployment).idleMs ? idleMs : 0);
  }

  async function move(deployment: Deployment, from: number, to: number): Promise<boolean> {
    if (to > from && !(await affords(deps, deployment, to - from))) {
      log.info({ deployment: deployment.id, from, to }, "funds do not cover more instances; not scaled up");
      return false;
    }
    // The row changed: the next pass retries.
    if (!(await store.change(deployment.id, deployment.account, deployment.revision, { target: to }))) return false;
    log.info({ deployment: deployment.id, from, to }, "deployment scaled");
    return true;
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
        // Two passes may read one report: requests between reports appear in the next one.
        const isWatched = !isUnheard && heardSinceMs !== undefined && atMs - heardSinceMs >= freshMs * scale;
        if (notedMs === atMs) used.push(deployment.id);
        // During an update only add instances: those being replaced are neither idle nor excess.
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

/** Unix ms of the last known use or change of state before this control plane started. */
const lastUseMs = ({ usedAtMs, awaitedAtMs, updatedAtMs }: Deployment) => Math.max(usedAtMs, awaitedAtMs, updatedAtMs);

const mayScale = ({ kind, status, minInstances, maxInstances }: Deployment) =>
  kind === "model" && (status === "deployed" || status === "updating") && minInstances < maxInstances;

function figuresOf(aged: AgedLive | undefined, id: Instance["id"]): InstanceLive | undefined {
  if (!aged || aged.ageMs > freshMs) return undefined;
  return aged.live.instances.find((one) => one.instanceId === id);
}

/** Counters of one instance since its agent started. */
interface Counts {
  readonly finished: number;
  readonly turnedAway: number;
}

/**
 * Load of refused requests since the last pass: current load times the ratio of refused to finished requests. At most the
 * current load, because refused clients retry.
 */
function unmet(load: number, since: Counts, now: Counts): number {
  const turnedAway = now.turnedAway - since.turnedAway;
  const ended = now.finished - since.finished;
  // Lower than before: the agent restarted.
  if (turnedAway <= 0 || ended < 0) return 0;
  return load * Math.min(1, turnedAway / Math.max(1, ended));
}

/** Keeps only the first and last of consecutive equal samples, so an idle day costs no memory. */
function merged(samples: readonly Sample[]): Sample[] {
  return samples.filter((one, n) => {
    const [before, after] = [samples[n - 1], samples[n + 1]];
    return !before || !after || !isLike(before, one) || !isLike(one, after);
  });
}

const isLike = (a: Sample, b: Sample) => a.load === b.load && a.isStarting === b.isStarting;
