import { sql } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import type { AliasStore } from "../../catalog/store.ts";
import { auditAct } from "../accounts/audit-rows.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";
import { epochMs, now } from "../core/time.ts";

export const selectAliases = (db: Db) =>
  db
    .selectFrom("modelAlias")
    .select([
      "accountId as account",
      "name",
      "targets",
      "fallbacks",
      "isSticky",
      epochMs("updatedAt").as("updatedAtMs"),
    ]);

export function createAliasStore(db: Db): AliasStore {
  const aliases = () => selectAliases(db).orderBy("name");
  const ofScope = (scope: AccountId | null) => sql<boolean>`account_id is not distinct from ${scope}`;
  return asked<AliasStore>({
    list: (account) =>
      aliases()
        .where((row) => row.or([row("accountId", "=", account), row("accountId", "is", null)]))
        .execute(),
    find: (scope, name) => aliases().where(ofScope(scope)).where("name", "=", name).executeTakeFirst(),

    put: ({ by, ip, scope }, { name, targets, fallbacks, isSticky }, maxCount) =>
      inTransaction(db, async (trx) => {
        // Two changes of one scope at once would both find a free place for the last alias.
        await sql`select pg_advisory_xact_lock(hashtextextended(${`model_alias ${scope ?? ""}`}, 0))`.execute(trx);
        const before = await trx
          .selectFrom("modelAlias")
          .select(["name", "targets", "fallbacks", "isSticky"])
          .where(ofScope(scope))
          .execute();
        const old = before.find((one) => one.name === name);
        if (!old && before.length >= maxCount) return undefined;
        const values = { targets: JSON.stringify(targets), fallbacks: JSON.stringify(fallbacks), isSticky };
        const stored = await trx
          .insertInto("modelAlias")
          .values({ accountId: scope, name, ...values })
          .onConflict((at) => at.columns(["accountId", "name"]).doUpdateSet({ ...values, updatedAt: now }))
          .returning(epochMs("updatedAt").as("updatedAtMs"))
          .executeTakeFirstOrThrow();
        const after = { name, targets, fallbacks, isSticky };
        await auditAct(trx, { by, ip }, { action: "alias.set", subject: name, account: scope, before: old, after });
        await announce(trx, "model", name);
        return { ...after, account: scope, updatedAtMs: stored.updatedAtMs };
      }),

    remove: ({ by, ip, scope }, name) =>
      inTransaction(db, async (trx) => {
        const old = await trx
          .deleteFrom("modelAlias")
          .where(ofScope(scope))
          .where("name", "=", name)
          .returning(["targets", "fallbacks", "isSticky"])
          .executeTakeFirst();
        if (!old) return false;
        await auditAct(trx, { by, ip }, { action: "alias.delete", subject: name, account: scope, before: old });
        await announce(trx, "model", name);
        return true;
      }),
  });
}
