import { fromUsd, nano, pricedPixels, type TokenRates, toUsd } from "../../proto/money.ts";
import type { ServedModel } from "../catalog/served-model.ts";
import type { ModelList, ModelSummaries } from "./schemas/models.ts";

export function renderModelList(models: readonly ServedModel[]): ModelList {
  return {
    object: "list",
    data: models.map((model) => {
      const rates = perMillion(model.rates);
      const slash = model.name.indexOf("/");
      return {
        id: model.name,
        object: "model" as const,
        created: Math.floor(model.createdAtMs / 1000),
        owned_by: slash > 0 ? model.name.slice(0, slash) : "stoker",
        root: model.name,
        parent: null,
        metadata: {
          description: model.description,
          context_length: model.contextLength,
          max_tokens: model.contextLength,
          pricing: { input_tokens: rates.input, output_tokens: rates.output, cache_read_tokens: rates.cached_input },
          tags: [],
        },
      };
    }),
  };
}

export function renderModelSummaries(models: readonly ServedModel[]): ModelSummaries {
  return models.map((model) => {
    const rates = perMillion(model.rates);
    return {
      model_name: model.name,
      type: model.task,
      reported_type: model.task,
      description: model.description,
      cover_img_url: null,
      tags: [],
      pricing: {
        type: "tokens",
        cents_per_input_token: rates.input / 1e4,
        cents_per_output_token: rates.output / 1e4,
        rate_per_input_token_cached: rates.cached_input / 1e4,
      },
      max_tokens: model.contextLength || null,
      replaced_by: null,
      deprecated: null,
      quantization: null,
      mmlu: null,
      expected: null,
      private: model.isPublic ? 0 : 1,
      is_partner: false,
    };
  });
}

/** USD per million tokens, as the operator wrote it. */
export interface Pricing {
  readonly input: number;
  readonly cached_input: number;
  readonly output: number;
}

/** USD per million characters, per 1000 seconds of audio, per image of so many steps. */
export interface UnitPricing {
  readonly characters?: number;
  readonly audio?: number;
  readonly image?: number;
  readonly image_steps?: number;
}

export function perMillion(rates: TokenRates): Pricing {
  return {
    input: toUsd(nano(rates.input)),
    cached_input: toUsd(nano(rates.cachedInput)),
    output: toUsd(nano(rates.output)),
  };
}

export function perUnit({ units }: TokenRates): UnitPricing {
  if (!units) return {};
  return {
    characters: toUsd(nano(units.characters)),
    audio: toUsd(nano(units.audio)),
    image: toUsd(nano(units.images / million)),
    image_steps: Number(units.imageUnit / BigInt(pricedPixels)),
  };
}

const million = 1_000_000n;

export function ratesOf(pricing: Pricing & UnitPricing): TokenRates {
  const { characters = 0, audio = 0, image = 0, image_steps: steps = 0 } = pricing;
  const tokens = {
    input: fromUsd(pricing.input),
    cachedInput: fromUsd(pricing.cached_input),
    output: fromUsd(pricing.output),
  };
  if (characters === 0 && audio === 0 && image === 0) return tokens;
  return {
    ...tokens,
    units: {
      characters: fromUsd(characters),
      audio: fromUsd(audio),
      images: fromUsd(image) * million,
      imageUnit: BigInt(steps) * BigInt(pricedPixels),
    },
  };
}
