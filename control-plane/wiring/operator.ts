// What the HTTP edge may ask of accounts on the operator's behalf, with its ports filled in.
import { createAdminAccounts } from "../accounts/admin-accounts.ts";
import { type CreditPort, creditAccount } from "../accounts/admin-credit.ts";
import { createApplications } from "../accounts/applications.ts";
import { createAuditLog } from "../accounts/audit.ts";
import { createSuspension } from "../accounts/suspension.ts";
import type { HttpDeps } from "../http/verbs.ts";
import { createAdminStore } from "../store/admin-store.ts";
import { createApplicationStore } from "../store/application-store.ts";
import { createAuditStore } from "../store/audit-store.ts";
import type { OpenDatabase } from "../store/database.ts";
import { createSuspensionStore } from "../store/suspension-store.ts";

export function createOperator({
  db,
  funds,
}: {
  readonly db: OpenDatabase["db"];
  readonly funds: CreditPort;
}): Pick<HttpDeps, "operator" | "applications"> {
  const suspensionStore = createSuspensionStore(db);
  const accounts = createAdminAccounts({ ...createAdminStore(db), suspensions: suspensionStore.suspensions });
  const suspension = createSuspension(suspensionStore);
  return {
    operator: {
      accounts: accounts.list,
      account: accounts.get,
      changeAccount: accounts.change,
      credit: (wish, act) => creditAccount({ funds, suspensions: suspensionStore, find: accounts.living }, wish, act),
      async suspend(account, reason, act) {
        await accounts.living(account);
        await suspension.suspend(account, reason, act);
      },
      async lift(account, reason, act) {
        await accounts.living(account);
        await suspension.lift(account, reason, act);
      },
      audit: createAuditLog(createAuditStore(db)).read,
    },
    applications: createApplications(createApplicationStore(db)),
  };
}
