import type { Endpoints } from "../core/endpoint.ts";
import { addAliasRoutes } from "./alias-routes.ts";
import { addCatalogueRoutes } from "./catalogue-routes.ts";
import type { ModelFeatures } from "./features.ts";
import { addModelRecordRoutes } from "./model-records-routes.ts";
import { addModelRoutes } from "./models-routes.ts";

export function addModels(endpoints: Endpoints, features: ModelFeatures): void {
  addModelRoutes(endpoints, features);
  addModelRecordRoutes(endpoints, features);
  addAliasRoutes(endpoints, features);
  addCatalogueRoutes(endpoints, features);
}
