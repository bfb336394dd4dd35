// How many instances load asks for, from samples alone: up when it lasts, down when it has been low for long, to none when
// nobody came. No clock, no store. Two replicas that look at the same reports come to the same answer.

export interface Sample {
  readonly atMs: number;
  /** Requests that run or wait at the instances. */
  readonly load: number;
  /** An instance is on its way. */
  readonly isStarting: boolean;
}

export interface ScaleWindows {
  /** Load must last this long before an instance is added: a burst that its queue takes is none. */
  readonly upMs: number;
  /** It must have been low for so long before one is taken away: a start costs more than an idle minute. */
  readonly downMs: number;
  /** Without a request, where the owner did not say. */
  readonly idleMs: number;
}

export const scaleWindows: ScaleWindows = { upMs: 10_000, downMs: 300_000, idleMs: 900_000 };

/** Of its batch an instance is to be used so far: the rest takes what comes while another one starts. */
export const fullShare = 0.8;

export interface ScaleQuestion {
  readonly min: number;
  readonly max: number;
  readonly target: number;
  readonly maxBatchSize: number;
  /** Oldest first; the last is of now. */
  readonly samples: readonly Sample[];
  readonly windows: ScaleWindows;
  /** For so long nobody used or wanted it, and nothing of it was on its way. */
  readonly idleForMs: number;
}

/** Instances wanted from now on. */
export function scaleTo({ min, max, target, maxBatchSize, samples, windows, idleForMs }: ScaleQuestion): number {
  const now = samples.at(-1);
  const within = (value: number) => Math.max(min, Math.min(value, max));
  // Asleep: only somebody who asks wakes it.
  if (!now || target === 0) return within(target);
  const wanted = ({ load }: Sample) => within(Math.max(1, Math.ceil(load / (maxBatchSize * fullShare))));

  const recent = lastOf(samples, now.atMs - windows.upMs);
  if (recent) {
    const least = Math.min(...recent.map(wanted));
    if (least > target) return least;
  }
  // What starts has been asked for: it is not sent away before it could serve.
  if (min === 0 && idleForMs >= windows.idleMs && !now.isStarting) return 0;
  const calm = lastOf(samples, now.atMs - windows.downMs);
  if (!calm || now.isStarting) return within(target);
  return Math.min(within(target), Math.max(...calm.map(wanted)));
}

/** The samples from `fromMs` on; undefined when they do not reach back so far. */
function lastOf(samples: readonly Sample[], fromMs: number): readonly Sample[] | undefined {
  const first = samples.findLastIndex((one) => one.atMs <= fromMs);
  return first < 0 ? undefined : samples.slice(first);
}
