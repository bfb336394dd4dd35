import { fromUsd, nano, type TokenRates, toUsd } from "../../proto/money.ts";
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

export function perMillion(rates: TokenRates): Pricing {
  return {
    input: toUsd(nano(rates.input)),
    cached_input: toUsd(nano(rates.cachedInput)),
    output: toUsd(nano(rates.output)),
  };
}

export function ratesOf(pricing: Pricing): TokenRates {
  return { input: fromUsd(pricing.input), cachedInput: fromUsd(pricing.cached_input), output: fromUsd(pricing.output) };
}
