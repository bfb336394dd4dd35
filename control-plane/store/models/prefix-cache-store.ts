import type { Kysely } from "kysely";
import type { PrefixCacheChange, PrefixCacheStore } from "../../deployments/store.ts";
import { asked } from "../core/asked.ts";
import { inTransaction } from "../core/database.ts";
import type { Database } from "../core/schema.ts";
import { announceSettings } from "../deployments/deployment-changes.ts";
import { auditAct } from "../people/audit-rows.ts";

export function createPrefixCacheStore(db: Kysely<Database>): PrefixCacheStore {
  return asked<PrefixCacheStore>({ share: (change) => share(db, change) });
}

function share(db: Kysely<Database>, { id, isShared, act }: PrefixCacheChange): Promise<boolean> {
  return inTransaction(db, async (trx) => {
    // Locks its hosts before its own row, as every writer does.
    await announceSettings(trx, id);
    const before = await trx
      .selectFrom("deployment")
      .select(["accountId", "sharePrefixCache"])
      .where("deployId", "=", id)
      .where("status", "<>", "deleted")
      .forUpdate()
      .executeTakeFirst();
    if (!before) return false;
    await trx.updateTable("deployment").set({ sharePrefixCache: isShared }).where("deployId", "=", id).execute();
    await auditAct(trx, act, {
      action: "deployment.share_prefix_cache",
      subject: id,
      account: before.accountId,
      before: { shared: before.sharePrefixCache },
      after: { shared: isShared },
    });
    return true;
  });
}
