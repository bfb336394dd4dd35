import { unixSeconds } from "../../../proto/unix-seconds.ts";
import type { ServedModel } from "../../catalog/served-model.ts";
import type { ModelItem, ModelList, ModelSummaries } from "./models-schemas.ts";
import { type HourRates, pricingOf } from "./pricing.ts";
import { perMillion, perUnit } from "./rates.ts";

export function renderModelList(models: readonly ServedModel[]): ModelList {
  return { object: "list", data: models.map(renderModel) };
}

export function renderModel(model: ServedModel): ModelItem {
  const rates = perMillion(model.rates);
  const { characters, audio, image } = perUnit(model.rates);
  const slash = model.name.indexOf("/");
  return {
    id: model.name,
    object: "model" as const,
    created: unixSeconds(model.createdAtMs),
    owned_by: slash > 0 ? model.name.slice(0, slash) : "stoker",
    root: model.name,
    parent: model.adapter?.baseName ?? null,
    metadata: {
      description: model.description,
      context_length: model.contextLength,
      max_tokens: model.contextLength,
      pricing: {
        input_tokens: rates.input,
        output_tokens: rates.output,
        cache_read_tokens: rates.cached_input,
        ...(characters ? { input_characters: characters } : {}),
        ...(audio ? { input_seconds: audio / 1000 } : {}),
        ...(image ? { per_image_unit: image } : {}),
      },
      tags: [...(model.about?.tags ?? [])],
    },
  };
}

/** `hourRates`: of GPUs, for own models; offered ones have prices of their own. */
export function renderModelSummaries(models: readonly ServedModel[], hourRates: HourRates): ModelSummaries {
  return models.map((model) => {
    const { about } = model;
    return {
      model_name: model.name,
      type: model.task,
      reported_type: model.task,
      description: model.description,
      cover_img_url: about?.coverImage ?? "",
      tags: [...(about?.tags ?? [])],
      pricing: pricingOf(model, hourRates),
      max_tokens: model.contextLength,
      replaced_by: about?.replacedBy ?? "",
      deprecated: Math.floor((about?.deprecatedAtMs ?? 0) / 1000),
      quantization: model.quantization ?? "",
      mmlu: 0,
      expected: "",
      private: (model.isPublic && !model.adapter) || about?.isShown ? 0 : 1,
      is_partner: false,
    };
  });
}
