import { type Kysely, sql } from "kysely";
import type { SecretRow, WebhookSecretStore } from "../webhooks/store.ts";
import { liveAccount } from "./account-rows.ts";
import { asked } from "./asked.ts";
import { writeAudit } from "./audit-rows.ts";
import { inTransaction } from "./database.ts";
import { ms } from "./milliseconds.ts";
import type { Database } from "./schema.ts";

const columns = ["sealed", "made_at", "previous_sealed", "previous_until"] as const;

export function createWebhookSecretStore(db: Kysely<Database>): WebhookSecretStore {
  const read = (account: string) =>
    db.selectFrom("webhook_secret").select(columns).where("account_id", "=", account).executeTakeFirst();

  return asked<WebhookSecretStore>({
    async secretOf(account, fresh) {
      const known = await read(account);
      if (known) return rowOf(known);
      const sealed = await fresh();
      await inTransaction(db, async (trx) => {
        const live = await liveAccount(trx, account).select("account_id").forShare().executeTakeFirst();
        if (!live) return;
        await trx
          .insertInto("webhook_secret")
          .values({ account_id: account, sealed, previous_sealed: null, previous_until: null })
          .onConflict((at) => at.column("account_id").doNothing())
          .execute();
      });
      const made = await read(account);
      return made && rowOf(made);
    },

    rotateSecret: (account, sealed, overlapMs, ip) =>
      inTransaction(db, async (trx) => {
        const live = await liveAccount(trx, account).select("account_id").forShare().executeTakeFirst();
        if (!live) return undefined;
        const row = await trx
          .insertInto("webhook_secret")
          .values({ account_id: account, sealed, previous_sealed: null, previous_until: null })
          .onConflict((at) =>
            at.column("account_id").doUpdateSet((eb) => ({
              sealed: eb.ref("excluded.sealed"),
              made_at: sql<Date>`now()`,
              previous_sealed: eb.ref("webhook_secret.sealed"),
              previous_until: sql<Date>`now() + ${ms(overlapMs)}`,
            })),
          )
          .returning(columns)
          .executeTakeFirstOrThrow();
        await writeAudit(trx, { actor: account, action: "webhook.rotate", subject: account, account, ip });
        return rowOf(row);
      }),
  });
}

interface Row {
  readonly sealed: Buffer;
  readonly made_at: Date;
  readonly previous_sealed: Buffer | null;
  readonly previous_until: Date | null;
}

const rowOf = (row: Row): SecretRow => ({
  sealed: row.sealed,
  madeAtMs: row.made_at.getTime(),
  previousSealed: row.previous_sealed,
  previousUntilMs: row.previous_until?.getTime() ?? null,
});
