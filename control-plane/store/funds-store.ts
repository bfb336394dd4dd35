import type { Kysely } from "kysely";
import type { FundsStore } from "../billing/store.ts";
import { writeAudit } from "./audit-rows.ts";
import { movingMoney } from "./budget-rows.ts";
import { announce } from "./change-feed.ts";
import { creditFunds } from "./credit-rows.ts";
import type { Database } from "./schema.ts";

export function createFundsStore(db: Kysely<Database>): FundsStore {
  return {
    grantCredit: (grant, by) =>
      movingMoney(db, async (trx) => {
        const outcome = await creditFunds(trx, grant);
        if (outcome.kind !== "granted") return outcome;
        if (by) {
          await writeAudit(trx, {
            ...by,
            action: `${grant.kind}.grant`,
            subject: grant.reference,
            account: grant.account,
            before: { limit: text(outcome.before.limit), spent: text(outcome.before.spent) },
            after: { limit: text(outcome.funds.limit), spent: text(outcome.funds.spent), amount: text(grant.amount) },
            note: grant.note,
          });
        }
        await announce(trx, "limit", grant.account);
        return outcome;
      }),
  };
}

/** JSON has no bigint. */
const text = (amount: bigint | null): string | null => (amount === null ? null : String(amount));
