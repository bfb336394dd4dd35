import type { CreditGrant, CreditOutcome, FundsStore } from "../../billing/store.ts";
import { announce } from "../core/change-feed.ts";
import type { Db, Trx } from "../core/schema.ts";
import { writeAudit } from "../people/audit-rows.ts";
import { movingMoney } from "./budget-rows.ts";
import { creditFunds } from "./credit-rows.ts";

export function createFundsStore(db: Db): FundsStore {
  return { grantCredit: (grant, by) => movingMoney(db, (trx) => grantIn(trx, grant, by)) };
}

/** The grant with its audit entry, announced: the last statements of its transaction. */
export async function grantIn(
  trx: Trx,
  grant: CreditGrant,
  by?: { readonly actor: string; readonly ip: string },
): Promise<CreditOutcome> {
  const outcome = await creditFunds(trx, grant);
  if (outcome.kind !== "granted") return outcome;
  if (by) {
    await writeAudit(trx, {
      ...by,
      action: `${grant.kind}.grant`,
      subject: grant.account,
      account: grant.account,
      before: { limit: text(outcome.before.limit), spent: text(outcome.before.spent) },
      after: {
        limit: text(outcome.funds.limit),
        spent: text(outcome.funds.spent),
        amount: text(grant.amount),
        reference: grant.reference,
      },
      note: grant.note,
    });
  }
  await announce(trx, "limit", grant.account);
  return outcome;
}

/** JSON has no bigint. */
const text = (amount: bigint | null): string | null => (amount === null ? null : String(amount));
