// Capabilities of models, such as tools and vision, from the catalogue.
import { useCallback, useMemo } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet } from "../../api/hooks.ts";
import { type Capabilities, capabilitiesOf } from "../../domain/capabilities.ts";
import type { ModelSummary } from "../../domain/models.ts";

const hourMs = 3_600_000;

export function useCapabilities(): (model: Pick<ModelSummary, "model_name" | "type">) => Capabilities {
  const { data } = useGet<Responses["GET /v1/model-catalogue"]>("/v1/model-catalogue", { everyMs: hourMs });
  const byName = useMemo(() => new Map(data?.models.map((one) => [one.name, one])), [data]);
  return useCallback((model) => capabilitiesOf(model, byName.get(model.model_name)), [byName]);
}
