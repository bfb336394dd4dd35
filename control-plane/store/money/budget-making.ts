import { sql } from "kysely";
import type { BudgetScope } from "../../billing/store.ts";
import { inTransaction } from "../core/database.ts";
import type { Db } from "../core/schema.ts";

/** Beyond it what is known is learned anew. */
const maxKnown = 50_000;

/**
 * Makes the rows of months and tokens at their first use, outside the transactions that move money; an account's own row is
 * made with the account. Rows are never removed, so each is asked for once.
 */
export function createBudgetMaker(db: Db): (scopes: readonly BudgetScope[]) => Promise<void> {
  const known = new Set<string>();
  return async (scopes) => {
    const wanted = scopes.filter((scope) => scope.kind !== "account" && !known.has(scope.budgetId));
    if (wanted.length === 0) return;
    await inTransaction(db, async (trx) => {
      // Who changes a monthly limit, the account's or a key's, locks the account first, and then finds the new row. What a
      // statement reads beside the row it waited for is as old as its beginning: the limits are read by one of their own.
      await sql`select from account where account_id = any(${[...new Set(wanted.map((s) => s.account))]}::text[])
        order by account_id for share`.execute(trx);
      await sql`
      insert into budget (budget_id, scope, account_id, lim)
      select w.budget_id, w.scope, a.account_id, case w.scope
        when 'account_month' then a.monthly_limit when 'key_month' then k.monthly_limit else w.lim end
      from unnest(${wanted.map((s) => s.budgetId)}::text[], ${wanted.map((s) => s.kind)}::text[],
        ${wanted.map((s) => s.account)}::text[], ${wanted.map((s) => s.key)}::text[],
        ${wanted.map((s) => s.limit?.toString() ?? null)}::bigint[]) as w (budget_id, scope, account_id, key_id, lim)
      join account a on a.account_id = w.account_id
      left join api_key k on k.token_id = w.key_id and k.account_id = w.account_id
      where w.scope <> 'key_month' or k.token_id is not null
      order by w.budget_id on conflict do nothing`.execute(trx);
    });
    if (known.size > maxKnown) known.clear();
    for (const scope of wanted) known.add(scope.budgetId);
  };
}
