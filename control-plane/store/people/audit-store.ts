import type { Kysely } from "kysely";
import type { AuditStore } from "../../accounts/store.ts";
import { asked } from "../core/asked.ts";
import type { Database } from "../core/schema.ts";
import { epochMs } from "../core/time.ts";

/** Reads only: writeAudit writes rows, in the transaction of the action. */
export function createAuditStore(db: Kysely<Database>): AuditStore {
  return asked<AuditStore>({
    async read({ account, action, fromMs, toMs }, before, limit) {
      let query = db
        .selectFrom("audit")
        .select(["auditId as id", epochMs("at").as("atMs"), "actor", "action", "subject", "accountId as account"])
        .select(["ip", "before", "after", "note"])
        .orderBy("auditId", "desc")
        .limit(limit);
      if (before !== undefined) query = query.where("auditId", "<", before);
      if (account !== undefined)
        query = query.where((row) => row.or([row("accountId", "=", account), row("actor", "=", account)]));
      if (action !== undefined)
        query = query.where((row) =>
          row.or([
            row("action", "=", action),
            row(row.fn<string>("split_part", ["action", row.val("."), row.lit(1)]), "=", action),
          ]),
        );
      if (fromMs !== undefined) query = query.where("at", ">=", new Date(fromMs));
      if (toMs !== undefined) query = query.where("at", "<", new Date(toMs));
      return query.execute();
    },
  });
}
