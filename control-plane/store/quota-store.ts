import type { Kysely } from "kysely";
import type { AccountId } from "../../proto/ids.ts";
import type { QuotaStore } from "../quotas/store.ts";
import { asked } from "./asked.ts";
import type { Database } from "./schema.ts";

export function createQuotaStore(db: Kysely<Database>): QuotaStore {
  return asked<QuotaStore>({
    async ownRateLimits() {
      const rows = await db
        .selectFrom("account_limit")
        .select(["account_id", "rate_limit", "tpm_rate_limit"])
        .where((eb) => eb.or([eb("rate_limit", "is not", null), eb("tpm_rate_limit", "is not", null)]))
        .execute();
      return new Map(
        rows.map((row) => [
          row.account_id as AccountId,
          {
            concurrent: row.rate_limit,
            tokensPerMinute: row.tpm_rate_limit === null ? null : Number(row.tpm_rate_limit),
          },
        ]),
      );
    },
  });
}
