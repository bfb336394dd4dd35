import { type Kysely, sql } from "kysely";
import type { SecretRow, WebhookSecretStore } from "../../webhooks/store.ts";
import { asked } from "../core/asked.ts";
import { inTransaction } from "../core/database.ts";
import { ms } from "../core/milliseconds.ts";
import type { Database } from "../core/schema.ts";
import { liveAccount } from "../people/account-rows.ts";
import { auditOwn } from "../people/audit-rows.ts";

const columns = ["sealed", "madeAt", "previousSealed", "previousUntil"] as const;

export function createWebhookSecretStore(db: Kysely<Database>): WebhookSecretStore {
  const read = (account: string) =>
    db.selectFrom("webhookSecret").select(columns).where("accountId", "=", account).executeTakeFirst();

  return asked<WebhookSecretStore>({
    async secretOf(account, fresh) {
      const known = await read(account);
      if (known) return rowOf(known);
      const sealed = await fresh();
      await inTransaction(db, async (trx) => {
        const live = await liveAccount(trx, account).select("accountId").forShare().executeTakeFirst();
        if (!live) return;
        await trx
          .insertInto("webhookSecret")
          .values({ accountId: account, sealed, previousSealed: null, previousUntil: null })
          .onConflict((at) => at.column("accountId").doNothing())
          .execute();
      });
      const made = await read(account);
      return made && rowOf(made);
    },

    rotateSecret: (account, sealed, overlapMs, ip) =>
      inTransaction(db, async (trx) => {
        const live = await liveAccount(trx, account).select("accountId").forShare().executeTakeFirst();
        if (!live) return undefined;
        const row = await trx
          .insertInto("webhookSecret")
          .values({ accountId: account, sealed, previousSealed: null, previousUntil: null })
          .onConflict((at) =>
            at.column("accountId").doUpdateSet((eb) => ({
              sealed: eb.ref("excluded.sealed"),
              madeAt: sql<Date>`now()`,
              previousSealed: eb.ref("webhookSecret.sealed"),
              previousUntil: sql<Date>`now() + ${ms(overlapMs)}`,
            })),
          )
          .returning(columns)
          .executeTakeFirstOrThrow();
        await auditOwn(trx, { account, ip }, "webhook.rotate");
        return rowOf(row);
      }),
  });
}

interface Row {
  readonly sealed: Buffer;
  readonly madeAt: Date;
  readonly previousSealed: Buffer | null;
  readonly previousUntil: Date | null;
}

const rowOf = (row: Row): SecretRow => ({
  sealed: row.sealed,
  madeAtMs: row.madeAt.getTime(),
  previousSealed: row.previousSealed,
  previousUntilMs: row.previousUntil?.getTime() ?? null,
});
