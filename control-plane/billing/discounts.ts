// Discounts in per cent for an account, a model, a surface or any combination, between two dates. The largest that matches
// applies to the rates of a request, so that its cost is rounded once.

import { type AccountId, randomId } from "../../proto/ids.ts";
import { wholeBasisPoints } from "../../proto/price-rules.ts";
import type { Act } from "../act.ts";
import { type ErrorFacts, invalid, notFound } from "../service-error.ts";
import { type Clock, systemClock } from "./clock.ts";

export interface Discount {
  readonly id: string;
  /** Shown on bills. */
  readonly name: string;
  readonly text: string;
  /** 1 to 10000: hundredths of a per cent. */
  readonly basisPoints: number;
  /** Null: any. */
  readonly account: AccountId | null;
  readonly model: string | null;
  readonly surface: string | null;
  readonly effectiveFromMs: number;
  /** Exclusive; null: open. */
  readonly effectiveToMs: number | null;
}

/** Changes announce `price`: caches of prices reload discounts too. */
export interface DiscountStore {
  /** False when there is no such account. */
  addDiscount(discount: Discount, by?: Act): Promise<boolean>;
  /** False when there is none or it has ended. */
  endDiscount(id: string, by?: Act): Promise<boolean>;
  /** Includes ended ones; newest first. */
  discounts(): Promise<readonly Discount[]>;
}

export const discountRefused = (message: string, facts?: ErrorFacts) => invalid("invalid_discount", message, facts);

export const discountNotFound = () => notFound("discount_not_found", "Discount not found, or it has ended.");

export interface DiscountedUse {
  readonly account: AccountId;
  /** Public name. */
  readonly model: string;
  /** `chat`, `text_completion`, `gpu`, ... */
  readonly surface: string;
}

export type DiscountParams = Omit<Discount, "id" | "effectiveFromMs"> & { readonly effectiveFromMs?: number };

export interface Discounts {
  /** In memory. */
  find(use: DiscountedUse, atMs: number): Discount | undefined;
  /** Throws discountRefused. */
  create(request: DiscountParams, by?: Act): Promise<Discount>;
  /** Ends it now; billed usage keeps it. Throws discountNotFound. */
  end(id: string, by?: Act): Promise<void>;
  list(): Promise<readonly Discount[]>;
  refresh(): Promise<void>;
}

/** Returns the largest that matches; of equal ones that with the lower id, so that replicas agree. Pure. */
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

export function createDiscounts(deps: { readonly store: DiscountStore; readonly clock?: Clock }): Discounts {
  const clock = deps.clock ?? systemClock;
  let known: readonly Discount[] = [];
  return {
    find: (use, atMs) => (known.length === 0 ? undefined : discountFor(known, use, atMs)),
    async create(request, by) {
      const effectiveFromMs = request.effectiveFromMs ?? clock.unixMs();
      if (!Number.isInteger(request.basisPoints) || request.basisPoints < 1 || request.basisPoints > wholeBasisPoints) {
        throw discountRefused("A discount must be between 0.01 and 100 per cent.", { param: "percent" });
      }
      if (request.name === "") throw discountRefused("A discount needs a name, which bills show.", { param: "name" });
      if (request.effectiveToMs !== null && request.effectiveToMs <= effectiveFromMs) {
        throw discountRefused("The discount ends before it begins. Set a later end.", { param: "effective_to" });
      }
      const discount: Discount = { ...request, id: randomId(16), effectiveFromMs };
      if (!(await deps.store.addDiscount(discount, by))) {
        throw discountRefused("Account not found.", { param: "uid" });
      }
      return discount;
    },
    async end(id, by) {
      if (!(await deps.store.endDiscount(id, by))) throw discountNotFound();
    },
    list: () => deps.store.discounts(),
    async refresh() {
      const nowMs = clock.unixMs();
      known = (await deps.store.discounts()).filter((one) => one.effectiveToMs === null || one.effectiveToMs > nowMs);
    },
  };
}
