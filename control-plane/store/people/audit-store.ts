import type { Kysely } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import type { AuditStore } from "../../accounts/store.ts";
import { asked } from "../core/asked.ts";
import type { Database } from "../core/schema.ts";

/** Reads alone: rows are written by writeAudit, in the transaction of the act. */
export function createAuditStore(db: Kysely<Database>): AuditStore {
  return asked<AuditStore>({
    async read({ account, action, fromMs, toMs }, before, limit) {
      let query = db.selectFrom("audit").selectAll().orderBy("auditId", "desc").limit(limit);
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
      return (await query.execute()).map((row) => ({
        id: row.auditId,
        atMs: row.at.getTime(),
        actor: row.actor,
        action: row.action,
        subject: row.subject,
        account: row.accountId as AccountId | null,
        ip: row.ip,
        before: row.before,
        after: row.after,
        note: row.note,
      }));
    },
  });
}
