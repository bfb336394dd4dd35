// How much to lease: what the waiting requests need, and a few seconds of recent use on top while the limit is far. Pure.

export interface Want {
  readonly floor: bigint;
  readonly full: bigint;
}

/** Of one scope: what its slice still has, and what its budget still has (undefined: no limit). */
export interface Purchase {
  readonly free: bigint;
  readonly room: bigint | undefined;
}

/** Beyond this many slices of room the limit counts as far. */
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
 * What to lease from each scope. Near a limit exactly what the requests take, so that the last cent is not stranded at a
 * replica that does not use it: full holds in order, a partial one down to its floor where no more is left.
 */
export function grantSizes(scopes: readonly Purchase[], wants: readonly Want[], headroom: bigint): GrantSizes {
  const left = scopes.map((scope) => (scope.room === undefined ? undefined : scope.free + scope.room));
  let total = 0n;
  let refusedFloor: bigint | undefined;
  for (const want of wants) {
    const most = left.reduce<bigint>((least, some) => (some !== undefined && some < least ? some : least), want.full);
    if (most < want.floor) {
      if (refusedFloor === undefined || want.floor < refusedFloor) refusedFloor = want.floor;
      continue;
    }
    total += most;
    for (const [i, some] of left.entries()) if (some !== undefined) left[i] = some - most;
  }
  const amounts = scopes.map((scope) => {
    const needed = total > scope.free ? total - scope.free : 0n;
    const isFar = scope.room === undefined || scope.room - needed >= headroom * farFactor;
    return isFar ? needed + headroom : needed;
  });
  if (refusedFloor !== undefined) return { amounts, refusal: { scope: scarcest(scopes), floor: refusedFloor } };
  return { amounts, refusal: wants.length > 0 ? null : undefined };
}

/** Which scope has the least to give, the first of equals; -1: none has a limit. */
export function scarcest(scopes: readonly Purchase[]): number {
  let found = -1;
  let least: bigint | undefined;
  for (const [i, { free, room }] of scopes.entries()) {
    if (room === undefined || (least !== undefined && free + room >= least)) continue;
    least = free + room;
    found = i;
  }
  return found;
}

/** Whether `headroom` and whatever waits can be leased from every scope without coming near a limit. */
export const isFarFromLimit = (scopes: readonly Purchase[], headroom: bigint): boolean =>
  scopes.every(({ room }) => room === undefined || room >= headroom * 2n * farFactor);

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

  /** What the next `seconds` will probably hold, at most `most`. */
  expect(seconds: number, nowMs: number, most: bigint): bigint {
    const amount = BigInt(Math.ceil(this.#decayed(nowMs) * seconds));
    return amount < most ? amount : most;
  }

  #decayed(nowMs: number): number {
    return this.#perSecond * Math.exp((this.#atMs - nowMs) / RecentUse.#windowMs);
  }
}
