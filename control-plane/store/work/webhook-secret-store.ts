import { sql } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import type { WebhookSecretStore } from "../../webhooks/store.ts";
import { lockAccount } from "../accounts/account-rows.ts";
import { auditOwn } from "../accounts/audit-rows.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";
import { epochMs, interval, now } from "../core/time.ts";

/** Columns of a SecretRow. */
const columns = [
  "sealed",
  epochMs("madeAt").as("madeAtMs"),
  "previousSealed",
  epochMs<null>("previousUntil").as("previousUntilMs"),
] as const;

export function createWebhookSecretStore(db: Db): WebhookSecretStore {
  const read = (account: AccountId) =>
    db.selectFrom("webhookSecret").select(columns).where("accountId", "=", account).executeTakeFirst();

  return asked<WebhookSecretStore>({
    async secretOf(account, fresh) {
      const known = await read(account);
      if (known) return known;
      const sealed = await fresh();
      await inTransaction(db, async (trx) => {
        if (!(await lockAccount(trx, account, "forShare"))) return;
        await trx
          .insertInto("webhookSecret")
          .values({ accountId: account, sealed, previousSealed: null, previousUntil: null })
          .onConflict((at) => at.column("accountId").doNothing())
          .execute();
      });
      return read(account);
    },

    rotateSecret: (actor, sealed, overlapMs) =>
      inTransaction(db, async (trx) => {
        if (!(await lockAccount(trx, actor.account, "forShare"))) return undefined;
        const row = await trx
          .insertInto("webhookSecret")
          .values({ accountId: actor.account, sealed, previousSealed: null, previousUntil: null })
          .onConflict((at) =>
            at.column("accountId").doUpdateSet((eb) => ({
              sealed: eb.ref("excluded.sealed"),
              madeAt: now,
              previousSealed: eb.ref("webhookSecret.sealed"),
              previousUntil: sql<Date>`now() + ${interval(overlapMs)}`,
            })),
          )
          .returning(columns)
          .executeTakeFirstOrThrow();
        await auditOwn(trx, actor, "webhook.rotate");
        return row;
      }),
  });
}
