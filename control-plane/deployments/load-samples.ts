// Load of each scalable deployment over time, from the reports of its hosts. In memory: a restart, or a second replica, has fewer
// samples and therefore changes less.
import type { DeploymentId, HostId } from "../../proto/ids.ts";
import { isServing } from "../../proto/instance-phase.ts";
import { type AgedLive, freshMs, type InstanceLive } from "../fleet/live.ts";
import { fullShare, type Sample, type ScaleWindows, scaleWindows } from "./autoscale.ts";
import type { Deployment, Instance } from "./deployment.ts";
import { batchSizeOf } from "./standard-args.ts";

/** Waiting callers are recorded every five seconds. */
const awaitedMs = 8_000;
/** Interval at which use is written to the row. */
const noteEveryMs = 10_000;

interface Known {
  readonly samples: readonly Sample[];
  readonly counts: ReadonlyMap<string, Counts>;
  /** Requests that arrived since the first sample. */
  readonly arrived: number;
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

export class LoadSamples {
  readonly #known = new Map<DeploymentId, Known>();
  readonly #clock: () => number;
  readonly #unixMs: () => number;
  readonly #scale: number;

  /** `scale`: all windows are shorter by this factor. */
  constructor(deps: { readonly clock: () => number; readonly unixMs: () => number; readonly scale: number }) {
    this.#clock = deps.clock;
    this.#unixMs = deps.unixMs;
    this.#scale = deps.scale;
  }

  windowsOf({ inactiveShutdown }: Deployment): ScaleWindows {
    return {
      upMs: scaleWindows.upMs * this.#scale,
      downMs: scaleWindows.downMs * this.#scale,
      trendMs: scaleWindows.trendMs * this.#scale,
      reportMs: scaleWindows.reportMs * this.#scale,
      idleMs: (inactiveShutdown === null ? scaleWindows.idleMs : inactiveShutdown * 1000) * this.#scale,
    };
  }

  /** Forgets all other deployments. */
  keep(ids: ReadonlySet<DeploymentId>): void {
    for (const id of this.#known.keys()) if (!ids.has(id)) this.#known.delete(id);
  }

  /** Adds one sample of a deployment from its hosts' last reports. */
  take(deployment: Deployment, instances: readonly Instance[], live: ReadonlyMap<HostId, AgedLive>): Known {
    const before = this.#known.get(deployment.id);
    const counts = new Map<string, Counts>();
    let load = 0;
    let arrived = before?.arrived ?? 0;
    const waits: InstanceLive[] = [];
    let isUsed = this.#unixMs() - deployment.awaitedAtMs < awaitedMs;
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
      waits.push(seen);
      const here = seen.inFlight + seen.waiting;
      const now: Counts = { finished: seen.finished ?? 0, refused: seen.turnedAway ?? 0, here };
      // The first report has totals only; rates need a second one.
      const since = last ?? now;
      counts.set(id, now);
      arrived += arrivals(since, now);
      load += here + unmet(here, since, now);
      isUsed ||= here > 0 || now.finished !== since.finished;
    }
    const isStarting = instances.some(({ phase }) => !isServing(phase) && phase !== "failed");
    isUsed ||= isStarting;
    const atMs = this.#clock();
    const keepFromMs = atMs - this.windowsOf(deployment).downMs;
    const sample: Sample = {
      atMs,
      load,
      isStarting,
      arrived,
      queueP95Ms: meanOf(waits.map((one) => one.queueP95Ms)),
      ttftP95Ms: meanOf(waits.map((one) => one.ttftP95Ms)),
    };
    const samples = [...(before?.samples ?? []), sample];
    // Keep one sample older than the window: it proves that the window is covered.
    const first = samples.findLastIndex((one) => one.atMs <= keepFromMs);
    const kept = merged(first > 0 ? samples.slice(first) : samples);
    const heardSinceMs = before?.heardSinceMs ?? (isUnheard ? undefined : atMs);
    const idleSinceMs = before?.heardSinceMs === undefined ? this.#idleSinceOf(deployment, atMs) : before.idleSinceMs;
    const isNoted = isUsed && atMs - (before?.notedMs ?? Number.NEGATIVE_INFINITY) >= noteEveryMs * this.#scale;
    const now: Known = {
      samples: kept,
      counts,
      arrived,
      isUsed,
      isUnheard,
      heardSinceMs,
      // Idle time starts at the first pass without use.
      idleSinceMs: isUsed || before?.isUsed ? atMs : idleSinceMs,
      notedMs: isNoted ? atMs : (before?.notedMs ?? Number.NEGATIVE_INFINITY),
    };
    this.#known.set(deployment.id, now);
    return now;
  }

  /**
   * Start of the period without use, at the first pass with reports. If it should have been asleep by now, no scaler was
   * running: the period starts now.
   */
  #idleSinceOf(deployment: Deployment, atMs: number): number {
    const idleMs = Math.max(0, this.#unixMs() - lastUseMs(deployment));
    return atMs - (idleMs < this.windowsOf(deployment).idleMs ? idleMs : 0);
  }
}

/** Unix ms of the last known use or change of state before this control plane started. */
const lastUseMs = ({ usedAtMs, awaitedAtMs, updatedAtMs }: Deployment) => Math.max(usedAtMs, awaitedAtMs, updatedAtMs);

function figuresOf(aged: AgedLive | undefined, id: Instance["id"]): InstanceLive | undefined {
  if (!aged || aged.ageMs > freshMs) return undefined;
  return aged.live.instances.find((one) => one.instanceId === id);
}

/** Counters of one instance since its agent started. */
interface Counts {
  readonly finished: number;
  readonly refused: number;
  /** Running and waiting requests. */
  readonly here: number;
}

/** Requests that arrived between two reports. Not below 0: the agent may have restarted. */
function arrivals(since: Counts, now: Counts): number {
  const ended = now.finished - since.finished;
  const refused = now.refused - since.refused;
  return ended < 0 || refused < 0 ? 0 : Math.max(0, ended + refused + now.here - since.here);
}

/** Undefined without values. */
function meanOf(values: readonly (number | undefined)[]): number | undefined {
  const known = values.filter((value) => value !== undefined);
  return known.length === 0 ? undefined : known.reduce((sum, value) => sum + value, 0) / known.length;
}

/**
 * Load of refused requests since the last pass: current load times the ratio of refused to finished requests. At most the
 * current load, because refused clients retry.
 */
function unmet(load: number, since: Counts, now: Counts): number {
  const refused = now.refused - since.refused;
  const ended = now.finished - since.finished;
  // Lower than before: the agent restarted.
  if (refused <= 0 || ended < 0) return 0;
  return load * Math.min(1, refused / Math.max(1, ended));
}

/** Keeps only the first and last of consecutive equal samples, so an idle day costs no memory. */
function merged(samples: readonly Sample[]): Sample[] {
  return samples.filter((one, n) => {
    const [before, after] = [samples[n - 1], samples[n + 1]];
    return !before || !after || !isLike(before, one) || !isLike(one, after);
  });
}

const isLike = (a: Sample, b: Sample) =>
  a.load === b.load &&
  a.isStarting === b.isStarting &&
  a.arrived === b.arrived &&
  a.queueP95Ms === b.queueP95Ms &&
  a.ttftP95Ms === b.ttftP95Ms;
