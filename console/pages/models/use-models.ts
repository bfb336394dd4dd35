import { useMemo } from "react";
import { type Query, useGetAll } from "../../api/hooks.ts";
import type { ModelSummary } from "../../domain/models.ts";

type Lists = readonly [readonly ModelSummary[], readonly ModelSummary[]];

/** Public models and the models of the account's deployments. */
export function useModels(): Query<readonly ModelSummary[]> {
  const query = useGetAll<Lists>(["/models/list", "/models/deployment/list"], { everyMs: 60_000 });
  const data = useMemo(
    () => query.data && [...new Map(query.data.flat().map((model) => [model.model_name, model])).values()],
    [query.data],
  );
  return { ...query, data } as Query<readonly ModelSummary[]>;
}
