// How long to wait after a crash, and when to give up.

/** Monotonic ms of the crashes since the last calm time, oldest first. */
export type Crashes = readonly number[];

export interface BackOff {
  readonly firstMs: number;
  readonly capMs: number;
  /** Up to this share longer or shorter: instances that died together must not come back together. */
  readonly spread: number;
  readonly giveUpAfter: number;
  readonly windowMs: number;
  /** The crash of that number is the last where the series has taken so long and the attempts themselves are no longer: a
   * source that accepts and says nothing takes its whole patience each time. */
  readonly slow?: { readonly after: number; readonly seriesMs: number; readonly attemptMs: number };
  /** Up so long, earlier crashes are forgotten. */
  readonly calmMs: number;
}

const minute = 60_000;
export const crashBackOff: BackOff = {
  firstMs: 10_000,
  capMs: 300_000,
  spread: 0.25,
  giveUpAfter: 5,
  windowMs: 30 * minute,
  calmMs: 10 * minute,
};
/** It refused to start and never served: whoever deployed it waits for the reason. */
export const startBackOff: BackOff = { ...crashBackOff, firstMs: 5_000, giveUpAfter: 3 };
/** Nothing runs yet and the downloader has tried by itself: whoever deployed should know within a minute. */
export const fetchBackOff: BackOff = {
  ...crashBackOff,
  firstMs: 2_000,
  slow: { after: 4, seriesMs: 35_000, attemptMs: 15_000 },
};

export interface AfterCrash {
  readonly crashes: Crashes;
  readonly next: { readonly kind: "retry"; readonly atMs: number } | { readonly kind: "give-up" };
}

/** `random` in [0, 1). `upMs`: how long it ran before. */
export function afterCrash(before: Crashes, upMs: number, nowMs: number, random: number, policy: BackOff): AfterCrash {
  const recent = upMs >= policy.calmMs ? [] : before.filter((atMs) => nowMs - atMs < policy.windowMs);
  const crashes = [...recent, nowMs];
  const pauseMs = (count: number) => Math.min(policy.capMs, policy.firstMs * 2 ** (count - 1));
  const { slow } = policy;
  const isSlow =
    slow !== undefined &&
    crashes.length >= slow.after &&
    nowMs - (recent[0] ?? nowMs) >= slow.seriesMs &&
    nowMs - (recent.at(-1) ?? nowMs) < slow.attemptMs + pauseMs(recent.length) * (1 + policy.spread);
  if (isSlow || crashes.length >= policy.giveUpAfter) return { crashes, next: { kind: "give-up" } };
  const plainMs = pauseMs(crashes.length);
  const delayMs = plainMs * (1 + policy.spread * (2 * random - 1));
  return { crashes, next: { kind: "retry", atMs: nowMs + delayMs } };
}
