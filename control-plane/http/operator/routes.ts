import type { Endpoints } from "../core/endpoint.ts";
import { addAdminNodeWeightsRoutes } from "./admin-node-weights-routes.ts";
import { addAdminAuditRoutes, addRestoreRoutes } from "./admin-restores-routes.ts";
import type { OperatorFeatures } from "./features.ts";
import { addIncidentRoutes } from "./incidents-routes.ts";
import { addMailRoutes } from "./mail-routes.ts";
import { addNodeEnrolmentRoutes } from "./node-enrolment-routes.ts";
import { addAdminNodeRoutes, addNodeOperationRoutes } from "./node-operations-routes.ts";
import { addOversightRoutes } from "./oversight-routes.ts";
import { addAdminQuotaRoutes, addQuotaRoutes } from "./quotas-routes.ts";
import { addSeriesRoutes } from "./series-routes.ts";
import { addTopRoutes } from "./top-routes.ts";

export function addOperator(endpoints: Endpoints, features: OperatorFeatures): void {
  addRestoreRoutes(endpoints, features);
  addQuotaRoutes(endpoints, features);
  addAdminQuotaRoutes(endpoints, features);
  addNodeEnrolmentRoutes(endpoints, features);
  addAdminAuditRoutes(endpoints, features);
  addNodeOperationRoutes(endpoints, features);
  addAdminNodeRoutes(endpoints, features);
  addAdminNodeWeightsRoutes(endpoints, features);
  addOversightRoutes(endpoints, features);
  addIncidentRoutes(endpoints, features);
  addTopRoutes(endpoints, features);
  addSeriesRoutes(endpoints, features);
  addMailRoutes(endpoints, features);
}
