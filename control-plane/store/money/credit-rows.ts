import { sql } from "kysely";
import { accountBudget } from "../../../proto/ids.ts";
import type { CreditGrant, CreditOutcome } from "../../billing/store.ts";
import type { Trx } from "../core/schema.ts";
import { writeLedger } from "./ledger-rows.ts";

/**
 * Raises (or, as a correction, lowers) what the account may spend and writes the ledger, once per reference. For
 * transactions that grant credit beside something else; the caller writes the audit, and announces `limit` with the
 * account's id as its last statement.
 */
export async function creditFunds(trx: Trx, grant: CreditGrant): Promise<CreditOutcome> {
  const { account, amount, kind, note, reference } = grant;
  const budgetId = accountBudget(account);
  const { rows } = await sql<{ lim: bigint | null; spent: bigint; leased: bigint }>`
    select lim, spent, leased from budget where budget_id = ${budgetId} for update`.execute(trx);
  const budget = rows[0];
  if (!budget) return { kind: "unknown_account" };
  const before = { limit: budget.lim, spent: budget.spent, leased: budget.leased };
  const earlier = await trx.selectFrom("credit").selectAll().where("reference", "=", reference).executeTakeFirst();
  if (earlier) {
    const isSame = earlier.accountId === account && earlier.amount === amount && earlier.kind === kind;
    return isSame ? { kind: "repeated", funds: before } : { kind: "reference_taken" };
  }
  const limit = budget.lim === null ? null : budget.lim + amount;
  if (limit !== null && amount < 0n && limit < budget.spent && !grant.mayGoBelowZero) {
    return { kind: "below_zero", funds: before };
  }
  const inserted = await trx
    .insertInto("credit")
    .values({ reference, accountId: account, amount, kind, note })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst();
  // The same reference for another account, at the same time: the lock above does not keep them apart.
  if (inserted.numInsertedOrUpdatedRows === 0n) return { kind: "reference_taken" };
  await trx.updateTable("budget").set({ lim: limit }).where("budgetId", "=", budgetId).execute();
  await writeLedger(trx, [{ from: "platform_revenue", to: "customer_available", amount, kind, account, note }]);
  return { kind: "granted", before, funds: { ...before, limit } };
}
