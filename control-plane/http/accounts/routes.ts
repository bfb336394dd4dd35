import type { FastifyInstance } from "fastify";
import type { Endpoints } from "../core/endpoint.ts";
import { addAdminAccountRoutes } from "./admin-accounts-routes.ts";
import { addClientSecretRoutes } from "./client-secrets-routes.ts";
import { addFactorRoutes } from "./factors-routes.ts";
import type { AccountFeatures } from "./features.ts";
import { addMeRoutes } from "./me-routes.ts";
import { addOrganizationRoutes } from "./organizations-routes.ts";
import { addProgramRoutes } from "./program-routes.ts";
import { addProjectRoutes } from "./projects-routes.ts";
import { addCliLoginRoutes, addSignInRoutes } from "./sign-in-routes.ts";
import { addSshKeyRoutes } from "./ssh-keys-routes.ts";
import { addScopedJwtRoutes, addTokenRoutes } from "./tokens-routes.ts";

export function addAccounts(endpoints: Endpoints, app: FastifyInstance, features: AccountFeatures): void {
  // Before the database closes.
  app.addHook("onClose", () => features.accountMails.idle());
  addMeRoutes(endpoints, features);
  addSshKeyRoutes(endpoints, features);
  addTokenRoutes(endpoints, features);
  addSignInRoutes(endpoints, features);
  addFactorRoutes(endpoints, features);
  addScopedJwtRoutes(endpoints, features);
  addClientSecretRoutes(endpoints, features);
  addCliLoginRoutes(endpoints, app, features);
  addOrganizationRoutes(endpoints, features);
  addProjectRoutes(endpoints, features);
  addAdminAccountRoutes(endpoints, features);
  addProgramRoutes(endpoints, features);
}
