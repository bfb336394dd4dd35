// Sizes of leases: what the waiting requests need, plus a few seconds of recent use while the limit is far. Pure.

export interface Want {
  readonly floor: bigint;
  readonly full: bigint;
}

/** Unreserved money of one scope: of its slice, and of its budget (undefined: no limit). */
export interface Purchase {
  readonly free: bigint;
  readonly available: bigint | undefined;
}

/** The limit counts as far when the budget covers this many headrooms. */
const farFactor = 4n;

export interface GrantSizes {
  /** Per scope. */
  readonly amounts: readonly bigint[];
  /**
   * Smallest floor among the requests that do not fit, and the scope that lacks the money; null: all fit; undefined: no request
   * waits.
   */
  readonly refusal: { readonly scope: number; readonly floor: bigint } | null | undefined;
}

/**
 * Returns what to lease from each scope. Near a limit that is exactly what the requests take, so that no money is stranded at a
 * replica that does not use it: full holds in order, and a partial one down to its floor when no more is left.
 */
export function grantSizes(scopes: readonly Purchase[], wants: readonly Want[], headroom: bigint): GrantSizes {
  const left = scopes.map((scope) => (scope.available === undefined ? undefined : scope.free + scope.available));
  let total = 0n;
  let refusedFloor: bigint | undefined;
  for (const want of wants) {
    const held = left.reduce<bigint>((min, some) => (some !== undefined && some < min ? some : min), want.full);
    if (held < want.floor) {
      if (refusedFloor === undefined || want.floor < refusedFloor) refusedFloor = want.floor;
      continue;
    }
    total += held;
    for (const [i, some] of left.entries()) if (some !== undefined) left[i] = some - held;
  }
  const amounts = scopes.map((scope) => {
    const needed = total > scope.free ? total - scope.free : 0n;
    const isFar = scope.available === undefined || scope.available - needed >= headroom * farFactor;
    return isFar ? needed + headroom : needed;
  });
  if (refusedFloor !== undefined) return { amounts, refusal: { scope: scarcest(scopes), floor: refusedFloor } };
  return { amounts, refusal: wants.length > 0 ? null : undefined };
}

/** Index of the scope with the least money, the first of equals; -1: none has a limit. */
export function scarcest(scopes: readonly Purchase[]): number {
  let found = -1;
  let min: bigint | undefined;
  for (const [i, { free, available }] of scopes.entries()) {
    if (available === undefined || (min !== undefined && free + available >= min)) continue;
    min = free + available;
    found = i;
  }
  return found;
}

/** Returns true if `headroom` and the waiting requests can be leased from every scope without getting near a limit. */
export const isFarFromLimit = (scopes: readonly Purchase[], headroom: bigint): boolean =>
  scopes.every(({ available }) => available === undefined || available >= headroom * 2n * farFactor);

/** Recent use of one account, in nano-USD held per second, decayed over a few seconds. */
export class RecentUse {
  #perSecond = 0;
  #atMs: number;
  static readonly #windowMs = 5_000;

  constructor(nowMs: number) {
    this.#atMs = nowMs;
  }

  add(amount: bigint, nowMs: number): void {
    this.#perSecond = this.#decayed(nowMs) + (Number(amount) * 1_000) / RecentUse.#windowMs;
    this.#atMs = nowMs;
  }

  /** Expected holds of the next `seconds`, at most `max`. */
  expect(seconds: number, nowMs: number, max: bigint): bigint {
    const amount = BigInt(Math.ceil(this.#decayed(nowMs) * seconds));
    return amount < max ? amount : max;
  }

  #decayed(nowMs: number): number {
    return this.#perSecond * Math.exp((this.#atMs - nowMs) / RecentUse.#windowMs);
  }
}
