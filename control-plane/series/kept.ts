import type { Resolution } from "./store.ts";

/** Milliseconds for which rows of a resolution are kept. */
export const keptMs: Readonly<Record<Resolution, number>> = {
  1: 86_400_000,
  10: 14 * 86_400_000,
  360: 90 * 86_400_000,
};
