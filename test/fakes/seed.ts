// Random choices that a seed repeats.

export interface Seeded {
  readonly seed: number;
  /** From 0 up to, not including, 1. */
  next(): number;
  /** From `least` to `most`, both included. */
  between(least: number, most: number): number;
  pick<T>(from: readonly T[]): T;
}

/** The seed of STOKER_PROPERTY_SEED, else `usual`, else one of this moment. `isFixed`: always `usual`. */
export function seeded(usual?: number, { isFixed = false } = {}): Seeded {
  const chosen = isFixed ? undefined : process.env["STOKER_PROPERTY_SEED"];
  const seed = Number(chosen ?? usual ?? Math.floor(Math.random() * 2 ** 31));
  let state = seed >>> 0;
  const next = () => {
    // An additive step and two rounds of mixing: good enough to choose what is killed next.
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
    return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32;
  };
  return {
    seed,
    next,
    between: (least, most) => least + Math.floor(next() * (most - least + 1)),
    pick: (from) => from[Math.floor(next() * from.length)] as (typeof from)[number],
  };
}
