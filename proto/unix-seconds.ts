/** Unix time in whole seconds. */
export const unixSeconds = (unixMs: number): number => Math.floor(unixMs / 1000);

/** Null where there is no time. */
export const unixSecondsOrNull = (unixMs: number | null | undefined): number | null =>
  unixMs == null ? null : unixSeconds(unixMs);
