// Decides the number of instances from load samples alone: up under lasting load, down after a long period of low load, to
// zero without requests. No clock, no store. Two replicas with the same reports decide the same.

export interface Sample {
  readonly atMs: number;
  /** Running and waiting requests at the instances. */
  readonly load: number;
  /** An instance is starting. */
  readonly isStarting: boolean;
}

export interface ScaleWindows {
  /** Load must last this long before an instance is added: the queue absorbs shorter bursts. */
  readonly upMs: number;
  /** Load must be low for this long before an instance is removed: a start costs more than an idle minute. */
  readonly downMs: number;
  /** Default idle time before sleep. */
  readonly idleMs: number;
}

export const scaleWindows: ScaleWindows = { upMs: 10_000, downMs: 300_000, idleMs: 900_000 };

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
}

/** Returns the desired number of instances. */
export function scaleTo({ min, max, target, maxBatchSize, samples, windows, idleForMs }: ScaleQuestion): number {
  const now = samples.at(-1);
  const within = (value: number) => Math.max(min, Math.min(value, max));
  // Asleep: only a request wakes it.
  if (!now || target === 0) return within(target);
  const wanted = ({ load }: Sample) => within(Math.max(1, Math.ceil(load / (maxBatchSize * fullShare))));

  const recent = lastOf(samples, now.atMs - windows.upMs);
  if (recent) {
    const minWanted = Math.min(...recent.map(wanted));
    if (minWanted > target) return minWanted;
  }
  // Keep an instance that is starting until it could serve.
  if (min === 0 && idleForMs >= windows.idleMs && !now.isStarting) return 0;
  const calm = lastOf(samples, now.atMs - windows.downMs);
  if (!calm || now.isStarting) return within(target);
  return Math.min(within(target), Math.max(...calm.map(wanted)));
}

/** Returns the samples from `fromMs` on; undefined when they do not reach back that far. */
function lastOf(samples: readonly Sample[], fromMs: number): readonly Sample[] | undefined {
  const first = samples.findLastIndex((one) => one.atMs <= fromMs);
  return first < 0 ? undefined : samples.slice(first);
}
