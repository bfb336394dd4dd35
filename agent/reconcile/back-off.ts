// Delay after a crash, and the limit at which to give up.

/** Monotonic ms of the crashes since the last calm time, oldest first. */
export type Crashes = readonly number[];

export interface BackOff {
  readonly firstMs: number;
  readonly capMs: number;
  /** Random share by which a delay is longer or shorter: instances that died together must not restart together. */
  readonly spread: number;
  readonly giveUpAfter: number;
  readonly windowMs: number;
  /** Number and age of a series at which a crash is the last, if the attempts themselves were short: a source that accepts and
   * then sends nothing uses its whole timeout each time. */
  readonly slow?: { readonly after: number; readonly seriesMs: number; readonly attemptMs: number };
  /** After this time without a crash, earlier crashes are forgotten. */
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
/** For an instance that refused to start and never served: its owner waits for the reason. */
export const startBackOff: BackOff = { ...crashBackOff, firstMs: 5_000, giveUpAfter: 3 };
/** For downloads: nothing runs yet and the downloader has retried itself, so report the failure within a minute. */
export const fetchBackOff: BackOff = {
  ...crashBackOff,
  firstMs: 2_000,
  slow: { after: 4, seriesMs: 35_000, attemptMs: 15_000 },
};

/** After a crash that a request caused: spaced like any other, never the last. `all`: crashes of both kinds. */
export function afterCrashByRequest(all: Crashes, nowMs: number, random: number, policy: BackOff): number {
  const { next } = afterCrash(
    [...all].sort((a, b) => a - b),
    0,
    nowMs,
    random,
    { ...policy, giveUpAfter: Number.POSITIVE_INFINITY },
  );
  return next.kind === "retry" ? next.atMs : nowMs + policy.capMs;
}

interface AfterCrash {
  readonly crashes: Crashes;
  readonly next: { readonly kind: "retry"; readonly atMs: number } | { readonly kind: "give-up" };
}

/** `random` in [0, 1). `upMs`: time for which it ran. */
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
