// Price book: immutable versions per model, GPU type and container plan, each from its effective date on. A version with a
// future date takes effect by itself.
import { gpuTypesInWords, isGpuType } from "../../proto/gpu.ts";
import type { Act } from "../act.ts";
import { type ErrorFacts, invalid } from "../service-error.ts";
import { type Clock, systemClock } from "./clock.ts";

/** `gpu_asleep`: of a GPU type, for time in which an instance sleeps. */
export type PriceKind = "model" | "gpu" | "gpu_asleep" | "container";

/** Nano-USD per million tokens, characters, milliseconds of audio, images; `hour`: nano-USD per hour of a GPU or container. */
export interface PriceRates {
  readonly input: bigint;
  readonly cachedInput: bigint;
  readonly output: bigint;
  readonly characters: bigint;
  readonly audio: bigint;
  readonly images: bigint;
  /** Steps of an image of 1024 x 1024 at that rate; others cost in proportion. 0: every image costs the same. */
  readonly imageSteps: bigint;
  readonly hour: bigint;
}

/** Prices of service tiers in per cent of the rates. */
export interface TierPercents {
  readonly priority: number;
  readonly flex: number;
}

export interface NewPrice {
  readonly kind: PriceKind;
  readonly subject: string;
  readonly rates: PriceRates;
  readonly tiers: TierPercents;
  readonly effectiveFromMs: number;
}

export interface PriceVersion extends NewPrice {
  readonly version: bigint;
  readonly setAtMs: number;
}

export interface PriceStore {
  /** Announces `price`. */
  setPrice(price: NewPrice, by?: Act): Promise<PriceVersion>;
  /** By kind and subject, latest effective first. */
  prices(filter: { readonly kind?: PriceKind; readonly subject?: string }): Promise<readonly PriceVersion[]>;
}

export const priceRefused = (message: string, facts?: ErrorFacts) => invalid("invalid_price", message, facts);

export interface PriceParams {
  readonly kind: PriceKind;
  /** Public model name, GPU type or container plan. */
  readonly subject: string;
  /** Absent rates are 0. */
  readonly rates: Partial<PriceRates>;
  /** Absent: 100. */
  readonly tiers?: Partial<TierPercents>;
  /** Unix ms, not in the past; absent: now. */
  readonly effectiveFromMs?: number;
}

export interface PriceBook {
  /** Throws priceRefused. With `by` an audit entry in the same transaction. */
  set(request: PriceParams, by?: Act): Promise<PriceVersion>;
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

/**
 * Maximum rates, nano-USD: USD 1,000,000 per million units or per hour, USD 1,000 per image (stored per million images). The
 * largest request at these rates fits into 63 bits, and each is exact as a JSON number of USD.
 */
const maxRate = 10n ** 15n;
const maxImageRate = 10n ** 18n;
const maxImageSteps = 1_000n;
const maxTierPercent = 10_000;
/** Tolerance for a date that was "now" when it was sent. */
const latenessMs = 60_000;

export function createPriceBook(deps: { readonly store: PriceStore; readonly clock?: Clock }): PriceBook {
  const clock = deps.clock ?? systemClock;
  return {
    async set(request, by) {
      const rates = { ...noRates, ...request.rates };
      if (rates.imageSteps > maxImageSteps)
        throw priceRefused(`rates.image_steps must be at most ${maxImageSteps}.`, { param: "rates.image_steps" });
      for (const [name, rate] of Object.entries(rates)) {
        if (rate < 0n || rate > (name === "images" ? maxImageRate : maxRate))
          throw priceRefused(
            `The price of ${name} must be at least 0 and at most USD ${name === "images" ? "1,000 per image" : "1,000,000"}.`,
            { param: `rates.${name}` },
          );
      }
      if ((request.kind === "gpu" || request.kind === "gpu_asleep") && !isGpuType(request.subject))
        throw priceRefused(`${request.subject} is not a GPU type. Allowed: ${gpuTypesInWords}.`, {
          param: "subject",
        });
      const { hour, ...units } = rates;
      if (request.kind === "model" ? hour !== 0n : Object.values(units).some((rate) => rate !== 0n)) {
        throw priceRefused(
          "A model is priced by tokens, characters, audio and images; a GPU or container by the hour.",
        );
      }
      if (request.subject === "" || request.subject.length > 256) {
        throw priceRefused(
          "`subject` must be a model's name, a GPU type or a container plan, of at most 256 characters.",
          {
            param: "subject",
          },
        );
      }
      const nowMs = clock.unixMs();
      const effectiveFromMs = request.effectiveFromMs ?? nowMs;
      if (effectiveFromMs < nowMs - latenessMs) {
        throw priceRefused(
          "A price cannot begin in the past, because that usage is already priced. Set a later date.",
          {
            param: "effective_from",
          },
        );
      }
      const tiers = { priority: 100, flex: 100, ...request.tiers };
      if (request.kind !== "model" && (tiers.priority !== 100 || tiers.flex !== 100))
        throw priceRefused("Only a model has prices for service tiers.", { param: "tiers" });
      for (const [tier, percent] of Object.entries(tiers))
        if (!Number.isInteger(percent) || percent < 0 || percent > maxTierPercent)
          throw priceRefused(`tiers.${tier} must be from 0 to ${maxTierPercent / 100}, in steps of 0.01.`, {
            param: `tiers.${tier}`,
          });
      const price: NewPrice = { kind: request.kind, subject: request.subject, rates, tiers, effectiveFromMs };
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
