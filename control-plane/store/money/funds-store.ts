import { sql } from "kysely";
import { accountBudget } from "../../../proto/ids.ts";
import type { Act } from "../../act.ts";
import type { CreditGrant, CreditOutcome, FundsStore } from "../../billing/store.ts";
import { auditAct } from "../accounts/audit-rows.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db, Trx } from "../core/schema.ts";
import { writeLedger } from "./ledger-rows.ts";

export function createFundsStore(db: Db): FundsStore {
  return asked<FundsStore>({ grantCredit: (grant, by) => inTransaction(db, (trx) => grantIn(trx, grant, by)) });
}

/** The grant with its audit entry, announced: the last statements of its transaction. */
export async function grantIn(trx: Trx, grant: CreditGrant, by?: Act): Promise<CreditOutcome> {
  const outcome = await creditIn(trx, grant, by);
  if (outcome.kind === "granted") await announce(trx, "limit", grant.account);
  return outcome;
}

/** The same for a caller that announces `limit` with the account's id as its last statement. */
export async function creditIn(trx: Trx, grant: CreditGrant, by?: Act): Promise<CreditOutcome> {
  const outcome = await creditFunds(trx, grant);
  if (outcome.kind !== "granted" || !by) return outcome;
  const { before, funds } = outcome;
  await auditAct(
    trx,
    { ...by, note: grant.note },
    {
      action: `${grant.kind}.grant`,
      subject: grant.account,
      account: grant.account,
      before: { limit: text(before.limit), spent: text(before.spent) },
      after: {
        limit: text(funds.limit),
        spent: text(funds.spent),
        amount: text(grant.amount),
        reference: grant.reference,
      },
    },
  );
  return outcome;
}

/** JSON has no bigint. */
const text = (amount: bigint | null): string | null => (amount === null ? null : String(amount));

/** Nano-USD: USD 9,000,000,000. PostgreSQL's bigint ends at 9.22e18. */
const maxFunds = 9n * 10n ** 18n;

/** Raises (or, as a correction, lowers) what the account may spend and writes the ledger, once per reference. */
async function creditFunds(trx: Trx, grant: CreditGrant): Promise<CreditOutcome> {
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
  if (limit !== null && (limit > maxFunds || limit < -maxFunds)) return { kind: "above_range", funds: before };
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
