// Discounts: so many per cent off, for an account, a model, a surface or any combination, between two dates. A request gets
// one, the largest that matches, inside its rates, so that its cost is still rounded once.
import { type AccountId, randomId } from "../../proto/ids.ts";
import type { TokenRates } from "../../proto/money.ts";
import { ServiceError } from "../service-error.ts";
import { type Clock, systemClock } from "./clock.ts";
import type { Discount, DiscountStore, PriceSetter } from "./store.ts";

export class DiscountRefused extends ServiceError {
  readonly code = "invalid_discount";
}

export class DiscountNotFound extends ServiceError {
  readonly code = "discount_not_found";
  constructor() {
    super("There is no such discount, or it has ended.");
  }
}

export interface DiscountedUse {
  readonly account: AccountId;
  /** Public name. */
  readonly model: string;
  /** `chat`, `text_completion`, `gpu`, ... */
  readonly surface: string;
}

export type DiscountWish = Omit<Discount, "id" | "effectiveFromMs"> & { readonly effectiveFromMs?: number };

export interface Discounts {
  /** In memory. */
  find(use: DiscountedUse, atMs: number): Discount | undefined;
  /** Throws DiscountRefused. */
  create(wish: DiscountWish, by?: PriceSetter): Promise<Discount>;
  /** From now on it is given to nobody; what was billed with it stays. Throws DiscountNotFound. */
  end(id: string, by?: PriceSetter): Promise<void>;
  list(): Promise<readonly Discount[]>;
  refresh(): Promise<void>;
}

const wholeBasisPoints = 10_000n;

/** The largest that matches, of two equal ones the one with the lower id: the same at every replica. Pure. */
export function discountFor(discounts: readonly Discount[], use: DiscountedUse, atMs: number): Discount | undefined {
  let best: Discount | undefined;
  for (const one of discounts) {
    if (one.account !== null && one.account !== use.account) continue;
    if (one.model !== null && one.model !== use.model) continue;
    if (one.surface !== null && one.surface !== use.surface) continue;
    if (atMs < one.effectiveFromMs || (one.effectiveToMs !== null && atMs >= one.effectiveToMs)) continue;
    const isBetter =
      best === undefined ||
      one.basisPoints > best.basisPoints ||
      (one.basisPoints === best.basisPoints && one.id < best.id);
    if (isBetter) best = one;
  }
  return best;
}

/** A rate after the discount, rounded half up: to a nano-USD per million units. */
export const discountedRate = (rate: bigint, basisPoints: number): bigint =>
  (rate * (wholeBasisPoints - BigInt(basisPoints)) + wholeBasisPoints / 2n) / wholeBasisPoints;

const discounted = new WeakMap<TokenRates, Map<number, TokenRates>>();

/** Made once for a price and a discount: requests share them. */
export function discountedRates(rates: TokenRates, basisPoints: number): TokenRates {
  const known = discounted.get(rates) ?? new Map<number, TokenRates>();
  discounted.set(rates, known);
  const lower = known.get(basisPoints) ?? {
    input: discountedRate(rates.input, basisPoints),
    cachedInput: discountedRate(rates.cachedInput, basisPoints),
    output: discountedRate(rates.output, basisPoints),
    ...(rates.units && {
      units: {
        ...rates.units,
        characters: discountedRate(rates.units.characters, basisPoints),
        audio: discountedRate(rates.units.audio, basisPoints),
        images: discountedRate(rates.units.images, basisPoints),
      },
    }),
  };
  known.set(basisPoints, lower);
  return lower;
}

export function createDiscounts(deps: { readonly store: DiscountStore; readonly clock?: Clock }): Discounts {
  const clock = deps.clock ?? systemClock;
  let known: readonly Discount[] = [];
  return {
    find: (use, atMs) => (known.length === 0 ? undefined : discountFor(known, use, atMs)),
    async create(wish, by) {
      const effectiveFromMs = wish.effectiveFromMs ?? clock.unixMs();
      if (!Number.isInteger(wish.basisPoints) || wish.basisPoints < 1 || wish.basisPoints > Number(wholeBasisPoints)) {
        throw new DiscountRefused("A discount is between 0.01 and 100 per cent.", { param: "percent" });
      }
      if (wish.name === "") throw new DiscountRefused("A discount needs a name: bills show it.", { param: "name" });
      if (wish.effectiveToMs !== null && wish.effectiveToMs <= effectiveFromMs) {
        throw new DiscountRefused("The discount ends before it begins. Give a later end.", { param: "effective_to" });
      }
      const discount: Discount = { ...wish, id: randomId(16), effectiveFromMs };
      if (!(await deps.store.addDiscount(discount, by))) {
        throw new DiscountRefused("There is no such account to give a discount to.", { param: "uid" });
      }
      return discount;
    },
    async end(id, by) {
      if (!(await deps.store.endDiscount(id, by))) throw new DiscountNotFound();
    },
    list: () => deps.store.discounts(),
    async refresh() {
      const nowMs = clock.unixMs();
      known = (await deps.store.discounts()).filter((one) => one.effectiveToMs === null || one.effectiveToMs > nowMs);
    },
  };
}
