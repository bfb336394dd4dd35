// Decides the number of instances from samples alone: up under lasting load, before growing load would meet a cold start, and
// while users wait longer than their target; down after a long period of low load, to zero without requests. No clock, no store. Two replicas with the same reports decide the same.

export interface Sample {
  readonly atMs: number;
  /** Running and waiting requests at the instances. */
  readonly load: number;
  /** An instance is starting. */
  readonly isStarting: boolean;
  /** Requests that arrived since any fixed time; undefined: unknown. */
  readonly arrived?: number | undefined;
  /** Mean over the instances; undefined: no requests, or not reported. */
  readonly queueP95Ms?: number | undefined;
  readonly ttftP95Ms?: number | undefined;
}

/** Maximum times that users should wait. */
export interface ScaleTargets {
  readonly ttftMs?: number | undefined;
  readonly queueMs?: number | undefined;
}

export interface ScaleWindows {
  /** Load must last this long before an instance is added: the queue absorbs shorter bursts. */
  readonly upMs: number;
  /** Load must be low for this long before an instance is removed: a start costs more than an idle minute. */
  readonly downMs: number;
  /** Default idle time before sleep. */
  readonly idleMs: number;
  /** Growth of arrivals must last this long. */
  readonly trendMs: number;
  /** Reported times include requests from before a new instance served, for this long. */
  readonly reportMs: number;
}

export const scaleWindows: ScaleWindows = {
  upMs: 10_000,
  downMs: 300_000,
  idleMs: 900_000,
  trendMs: 120_000,
  reportMs: 15_000,
};

/** Target use of an instance's batch: the rest absorbs load while another instance starts. */
export const fullShare = 0.8;

export interface ScaleQuestion {
  readonly min: number;
  readonly max: number;
  readonly target: number;
  readonly maxBatchSize: number;
  /** Oldest first; the last sample is current. */
  readonly samples: readonly Sample[];
  readonly windows: ScaleWindows;
  /** Time without use, demand or starting instances. */
  readonly idleForMs: number;
  readonly targets?: ScaleTargets;
  /** Duration of a recent start of an instance; 0: unknown. */
  readonly startMs?: number;
}

/** Returns the desired number of instances. */
export function scaleTo(question: ScaleQuestion): number {
  const { min, max, target, maxBatchSize, samples, windows, idleForMs, targets = {}, startMs = 0 } = question;
  const now = samples.at(-1);
  const within = (value: number) => Math.max(min, Math.min(value, max));
  // Asleep: only a request wakes it.
  if (!now || target === 0) return within(target);
  const wanted = (load: number) => within(Math.max(1, Math.ceil(load / (maxBatchSize * fullShare))));

  const recent = lastOf(samples, now.atMs - windows.upMs);
  if (recent) {
    const lasting = Math.min(...recent.map(({ load }) => load));
    const expected = lasting * (1 + growthOf(samples, now, startMs, windows));
    const forUsers = isSlow(recent, now, samples, question) ? within(target + 1) : 0;
    const minWanted = Math.max(wanted(expected), forUsers);
    if (minWanted > target) return minWanted;
  }
  // Keep an instance that is starting until it could serve.
  if (min === 0 && idleForMs >= windows.idleMs && !now.isStarting) return 0;
  const calm = lastOf(samples, now.atMs - windows.downMs);
  if (!calm || now.isStarting) return within(target);
  // One instance fewer would be slower: keep all until times are far below their targets.
  if (calm.some((one) => isOver(one, targets, calmShare))) return within(target);
  return Math.min(within(target), Math.max(...calm.map(({ load }) => wanted(load))));
}

/** Below this share of a target, an instance may be removed. */
const calmShare = 0.5;

function isOver({ ttftP95Ms = 0, queueP95Ms = 0 }: Sample, { ttftMs, queueMs }: ScaleTargets, share: number): boolean {
  return (
    (ttftMs !== undefined && ttftP95Ms > ttftMs * share) || (queueMs !== undefined && queueP95Ms > queueMs * share)
  );
}

/** True when users have waited too long, and no instance that would help is starting or started just now. */
function isSlow(recent: readonly Sample[], now: Sample, samples: readonly Sample[], question: ScaleQuestion): boolean {
  const { targets = {}, windows } = question;
  const settledFromMs = now.atMs - windows.upMs - windows.reportMs;
  if (samples.some(({ atMs, isStarting }) => isStarting && atMs >= settledFromMs)) return false;
  return recent.every((one) => isOver(one, targets, 1));
}

/** Maximum growth to prepare for, as a share of the load. */
const maxGrowth = 1;

/**
 * Expected growth of the load until an instance that is requested now serves, as a share of the load. 0 unless arrivals grew over
 * all three parts of the window by more than chance.
 */
function growthOf(samples: readonly Sample[], now: Sample, startMs: number, { trendMs }: ScaleWindows): number {
  const partMs = trendMs / 3;
  const arrivedAt = (atMs: number) => samples.findLast((one) => one.atMs <= atMs)?.arrived;
  const counts = [3, 2, 1, 0].map((parts) => arrivedAt(now.atMs - parts * partMs));
  const [a, b, c, d] = counts;
  if (a === undefined || b === undefined || c === undefined || d === undefined) return 0;
  const [first, second, third] = [b - a, c - b, d - c];
  // Chance alone varies a count by its root.
  if (second <= first || third <= second || third - first < 3 * Math.sqrt(third)) return 0;
  const added = (third - first) / 2;
  return Math.min(maxGrowth, (added / third) * (startMs / partMs));
}

/** Returns the samples from `fromMs` on; undefined when they do not reach back that far. */
function lastOf(samples: readonly Sample[], fromMs: number): readonly Sample[] | undefined {
  const first = samples.findLastIndex((one) => one.atMs <= fromMs);
  return first < 0 ? undefined : samples.slice(first);
}
