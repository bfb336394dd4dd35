import type { Aliases } from "../../catalog/aliases.ts";
import type { HubSearch } from "../../catalog/hub-search.ts";
import type { ModelCatalogue } from "../../catalog/model-catalogue.ts";
import type { ModelRecords } from "../../catalog/model-records.ts";
import type { ModelDirectory } from "../../catalog/served-model.ts";

export interface ModelFeatures {
  readonly aliases: Aliases;
  readonly catalogue: Pick<ModelCatalogue, "search">;
  readonly hub: HubSearch;
  readonly modelRecords: ModelRecords;
  readonly spine: { readonly models: ModelDirectory };
  readonly publicUrl: string | undefined;
}
