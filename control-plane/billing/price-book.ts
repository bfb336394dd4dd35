import { gpuTypes, isGpuType } from "../../proto/gpu.ts";
// The price book: immutable versions per model, GPU type and container plan, each from its effective date on. A version set
// ahead takes effect by itself.
import { ServiceError } from "../service-error.ts";
import { type Clock, systemClock } from "./clock.ts";
import type { NewPrice, PriceKind, PriceRates, PriceSetter, PriceStore, PriceVersion } from "./store.ts";

export class PriceRefused extends ServiceError {
  readonly code = "invalid_price";
}

export interface PriceWish {
  readonly kind: PriceKind;
  /** Public model name, GPU type or container plan. */
  readonly subject: string;
  /** What is left out costs nothing. */
  readonly rates: Partial<PriceRates>;
  /** Unix ms; absent: now. Never in the past: what was used was priced. */
  readonly effectiveFromMs?: number;
}

export interface PriceBook {
  /** Throws PriceRefused. With `by` an audit entry in the same transaction. */
  set(wish: PriceWish, by?: PriceSetter): Promise<PriceVersion>;
  /** All versions, by subject, the latest first. */
  list(filter?: { readonly kind?: PriceKind; readonly subject?: string }): Promise<readonly ListedPrice[]>;
}

export interface ListedPrice extends PriceVersion {
  /** It holds now. */
  readonly isCurrent: boolean;
}

const noRates: PriceRates = {
  input: 0n,
  cachedInput: 0n,
  output: 0n,
  characters: 0n,
  audio: 0n,
  images: 0n,
  imageSteps: 0n,
  hour: 0n,
};

/** The version that holds at `atMs`: the one that began last, of two that began together the later set. Pure. */
export function priceAt(versions: readonly PriceVersion[], atMs: number): PriceVersion | undefined {
  let best: PriceVersion | undefined;
  for (const version of versions) {
    if (version.effectiveFromMs > atMs) continue;
    const isLater =
      best === undefined ||
      version.effectiveFromMs > best.effectiveFromMs ||
      (version.effectiveFromMs === best.effectiveFromMs && version.version > best.version);
    if (isLater) best = version;
  }
  return best;
}

/** USD 1000 per single token, character or millisecond: far above any price, far below the range of the columns. */
const mostRate = 10n ** 18n;
const mostImageSteps = 1_000n;
/** A date that was "now" when it was sent. */
const latenessMs = 60_000;

export function createPriceBook(deps: { readonly store: PriceStore; readonly clock?: Clock }): PriceBook {
  const clock = deps.clock ?? systemClock;
  return {
    async set(wish, by) {
      const rates = { ...noRates, ...wish.rates };
      if (rates.imageSteps > mostImageSteps)
        throw new PriceRefused(`No image takes more than ${mostImageSteps} steps.`, { param: "rates.image_steps" });
      for (const [name, rate] of Object.entries(rates)) {
        if (rate < 0n || rate > mostRate)
          throw new PriceRefused(`The price of ${name} is negative or beyond any price.`);
      }
      if (wish.kind === "gpu" && !isGpuType(wish.subject))
        throw new PriceRefused(`${wish.subject} is no GPU type. There are ${gpuTypes.join(", ")}.`, {
          param: "subject",
        });
      const { hour, ...units } = rates;
      if (wish.kind === "model" ? hour !== 0n : Object.values(units).some((rate) => rate !== 0n)) {
        throw new PriceRefused(
          "A model is priced by tokens, characters, audio and images; a GPU or container by the hour.",
        );
      }
      if (wish.subject === "" || wish.subject.length > 256) {
        throw new PriceRefused("Say what the price is of: a model's name, a GPU type or a container plan.", {
          param: "subject",
        });
      }
      const nowMs = clock.unixMs();
      const effectiveFromMs = wish.effectiveFromMs ?? nowMs;
      if (effectiveFromMs < nowMs - latenessMs) {
        throw new PriceRefused(
          "A price cannot begin in the past: what was used then has its price. Give a later date.",
          {
            param: "effective_from",
          },
        );
      }
      const price: NewPrice = { kind: wish.kind, subject: wish.subject, rates, effectiveFromMs };
      return await deps.store.setPrice(price, by);
    },
    async list(filter = {}) {
      const versions = await deps.store.prices(filter);
      const bySubject = Map.groupBy(versions, (version) => `${version.kind}/${version.subject}`);
      const current = new Set([...bySubject.values()].map((of) => priceAt(of, clock.unixMs())));
      return versions.map((version) => ({ ...version, isCurrent: current.has(version) }));
    },
  };
}
