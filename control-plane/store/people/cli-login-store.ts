import type { Kysely } from "kysely";
import type { CliLoginStore } from "../../accounts/store.ts";
import { asked } from "../core/asked.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import type { Database } from "../core/schema.ts";

export function createCliLoginStore(db: Kysely<Database>): CliLoginStore {
  const known = (lookup: Buffer) =>
    db.selectFrom("cliLogin").select("lookup").where("lookup", "=", lookup).executeTakeFirst();

  return asked<CliLoginStore>({
    hasCliLogin: async (lookup) => (await known(lookup)) !== undefined,

    answerCliLogin: (login) =>
      inTransaction(db, async (trx) => {
        const { numInsertedOrUpdatedRows = 0n } = await trx
          .insertInto("cliLogin")
          .values({
            lookup: login.lookup,
            accountId: login.account,
            tokenId: login.key,
            createdAt: new Date(login.atMs),
            expiresAt: new Date(login.expiresAtMs),
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
        .updateTable("cliLogin")
        .set({ answeredAt: now })
        .where("lookup", "=", lookup)
        .where("answeredAt", "is", null)
        .where("expiresAt", ">", now)
        .returning(["accountId as account", "tokenId as key"])
        .executeTakeFirst();
      return row ?? ((await known(lookup)) ? "over" : "unknown");
    },
  });
}
