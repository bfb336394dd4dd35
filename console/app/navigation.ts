// All pages, in the order of the menu. Each area brings its own.
import { accountPages } from "../pages/account/pages.ts";
import { billingPages } from "../pages/billing/pages.ts";
import { buildPages } from "../pages/deployments/pages.ts";
import { fleetPages } from "../pages/fleet/pages.ts";
import { operatorPages } from "../pages/operator/pages.ts";
import { startPages } from "../pages/overview/pages.ts";
import type { PageEntry } from "./page-entry.ts";

export const pages: readonly PageEntry[] = [
  ...startPages,
  ...buildPages,
  ...billingPages,
  ...accountPages,
  ...fleetPages,
  ...operatorPages,
];
