import type { Kysely } from "kysely";
import type { AccountId, KeyId } from "../../proto/ids.ts";
import type { CliLoginStore } from "../accounts/store.ts";
import { asked } from "./asked.ts";
import { announce } from "./change-feed.ts";
import { inTransaction } from "./database.ts";
import type { Database } from "./schema.ts";

export function createCliLoginStore(db: Kysely<Database>): CliLoginStore {
  const known = (lookup: Buffer) =>
    db.selectFrom("cli_login").select("lookup").where("lookup", "=", lookup).executeTakeFirst();

  return asked<CliLoginStore>({
    hasCliLogin: async (lookup) => (await known(lookup)) !== undefined,

    answerCliLogin: (login) =>
      inTransaction(db, async (trx) => {
        const { numInsertedOrUpdatedRows = 0n } = await trx
          .insertInto("cli_login")
          .values({
            lookup: login.lookup,
            account_id: login.account,
            token_id: login.key,
            created_at: new Date(login.atMs),
            expires_at: new Date(login.expiresAtMs),
          })
          .onConflict((conflict) => conflict.column("lookup").doNothing())
          .executeTakeFirst();
        if (numInsertedOrUpdatedRows === 0n) return false;
        await announce(trx, "cli_login", login.lookup.toString("hex"));
        return true;
      }),

    async takeCliLogin(lookup, nowMs) {
      const now = new Date(nowMs);
      const row = await db
        .updateTable("cli_login")
        .set({ answered_at: now })
        .where("lookup", "=", lookup)
        .where("answered_at", "is", null)
        .where("expires_at", ">", now)
        .returning(["account_id", "token_id"])
        .executeTakeFirst();
      if (row) return { account: row.account_id as AccountId, key: row.token_id as KeyId };
      return (await known(lookup)) ? "over" : "unknown";
    },
  });
}
