import type { Endpoints } from "../core/endpoint.ts";
import { addAdminBillingRoutes } from "./admin-billing-routes.ts";
import { addAdminMoneyRoutes } from "./admin-money-routes.ts";
import { addAdminPriceRoutes } from "./admin-prices-routes.ts";
import { addUsageQuarantineRoutes } from "./admin-usage-quarantine-routes.ts";
import { addEndUsersRoutes } from "./end-users-routes.ts";
import type { MoneyFeatures } from "./features.ts";
import { addInvoiceExportRoutes } from "./invoice-export-routes.ts";
import { addInvoiceRoutes } from "./invoices-routes.ts";
import { addPayingRoutes } from "./paying-routes.ts";
import { addPaymentRoutes } from "./payment-routes.ts";
import { addUsageLogRoutes } from "./usage-log-routes.ts";

export function addMoney(endpoints: Endpoints, features: MoneyFeatures): void {
  addPaymentRoutes(endpoints, features);
  addUsageLogRoutes(endpoints, features);
  addEndUsersRoutes(endpoints, features);
  addInvoiceRoutes(endpoints, features);
  addInvoiceExportRoutes(endpoints, features);
  addPayingRoutes(endpoints, features);
  addAdminBillingRoutes(endpoints, features);
  addAdminMoneyRoutes(endpoints, features);
  addUsageQuarantineRoutes(endpoints, features);
  addAdminPriceRoutes(endpoints, features);
}
