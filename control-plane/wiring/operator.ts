// What the HTTP edge may ask of accounts on the operator's behalf, with its ports filled in.
import { createAdminAccounts } from "../accounts/admin-accounts.ts";
import { createAuditLog } from "../accounts/audit.ts";
import { createSuspension } from "../accounts/suspension.ts";
import type { OperatorVerbs } from "../http/verbs.ts";
import { createAdminStore } from "../store/admin-store.ts";
import { createAuditStore } from "../store/audit-store.ts";
import type { OpenDatabase } from "../store/database.ts";
import { createSuspensionStore } from "../store/suspension-store.ts";

export function createOperator({ db }: { readonly db: OpenDatabase["db"] }): OperatorVerbs {
  const suspensionStore = createSuspensionStore(db);
  const accounts = createAdminAccounts({ ...createAdminStore(db), suspensions: suspensionStore.suspensions });
  const suspension = createSuspension(suspensionStore);
  return {
    accounts: accounts.list,
    account: accounts.get,
    changeAccount: accounts.change,
    suspend: suspension.suspend,
    lift: suspension.lift,
    audit: createAuditLog(createAuditStore(db)).read,
  };
}
