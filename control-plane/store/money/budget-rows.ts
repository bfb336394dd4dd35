// Rows of budgets and leases, locked in one order everywhere (budgets by id, then leases by id), so that grants, returns
// and settlements of the same money wait for each other instead of deadlocking.
import { sql } from "kysely";
import type { BudgetId, DeploymentId, LeaseId } from "../../../proto/ids.ts";
import type { BudgetRow, BudgetScope, LeaseRow } from "../../billing/store.ts";
import { inTransaction } from "../core/database.ts";
import type { Db, Trx } from "../core/schema.ts";

export interface LockedBudget extends BudgetRow {
  readonly refusedFloor: bigint | null;
}

export async function lockBudgets(trx: Trx, ids: readonly BudgetId[]): Promise<LockedBudget[]> {
  if (ids.length === 0) return [];
  const { rows } = await sql<LockedBudget>`
    select budget_id, lim as "limit", spent, leased, refused_floor from budget
    where budget_id = any(${[...ids]}::text[]) order by budget_id for update`.execute(trx);
  return rows;
}

export interface LockedLease extends LeaseRow {
  readonly replicaId: string;
  readonly replicaEpoch: bigint;
  readonly isExpired: boolean;
}

export async function lockLeases(trx: Trx, ids: readonly LeaseId[], graceMs = 0): Promise<LockedLease[]> {
  if (ids.length === 0) return [];
  const { rows } = await sql<LockedLease>`
    select lease_id, budget_id, granted, settled, replica_id, replica_epoch, closed_at is null as is_open,
      expires_at < now() - make_interval(secs => ${graceMs / 1000}) as is_expired
    from lease where lease_id = any(${[...ids]}::text[]) order by lease_id for update`.execute(trx);
  return rows;
}

export async function moveBudgets(
  trx: Trx,
  moves: readonly { readonly budgetId: BudgetId; readonly spent: bigint; readonly leased: bigint }[],
): Promise<void> {
  if (moves.length === 0) return;
  await sql`
    update budget set spent = budget.spent + m.spent, leased = budget.leased + m.leased
    from unnest(${moves.map((m) => m.budgetId)}::text[], ${texts(moves.map((m) => m.spent))}::bigint[],
      ${texts(moves.map((m) => m.leased))}::bigint[]) as m (budget_id, spent, leased)
    where budget.budget_id = m.budget_id`.execute(trx);
}

export interface LeaseMove {
  readonly leaseId: LeaseId;
  readonly granted?: bigint;
  readonly settled?: bigint;
  /** Closes it. */
  readonly why?: string;
}

export async function moveLeases(trx: Trx, moves: readonly LeaseMove[]): Promise<void> {
  if (moves.length === 0) return;
  await sql`
    update lease set granted = lease.granted + m.granted, settled = lease.settled + m.settled,
      closed_at = case when m.why is null then null else now() end, closed_why = m.why
    from unnest(${moves.map((m) => m.leaseId)}::text[], ${texts(moves.map((m) => m.granted ?? 0n))}::bigint[],
      ${texts(moves.map((m) => m.settled ?? 0n))}::bigint[], ${moves.map((m) => m.why ?? null)}::text[])
      as m (lease_id, granted, settled, why)
    where lease.lease_id = m.lease_id and lease.closed_at is null`.execute(trx);
}

/** bigint arrays travel as text. */
const texts = (amounts: readonly bigint[]): string[] => amounts.map(String);

/** Above this size the cache is cleared and read again. */
const maxKnown = 50_000;

/**
 * Makes the rows of months and tokens at their first use, outside the transactions that move money; an account's own row is
 * made with the account. Rows are never removed, so each is read once.
 */
export function createBudgetMaker(db: Db): (scopes: readonly BudgetScope[]) => Promise<void> {
  const known = new Set<string>();
  return async (scopes) => {
    const unknown = scopes.filter((scope) => scope.kind !== "account" && !known.has(scope.budgetId));
    if (unknown.length === 0) return;
    const [ofProviders, wanted] = [unknown.filter(isOfProvider), unknown.filter((scope) => !isOfProvider(scope))];
    if (ofProviders.length > 0) await makeProviderBudgets(db, ofProviders);
    if (wanted.length > 0)
      await inTransaction(db, async (trx) => {
        // Who changes a monthly limit, the account's, a project's or a key's, locks the account first, and then finds the new row. What a
        // statement reads beside the row it waited for is as old as its beginning: the limits are read by one of their own.
        await sql`select from account where account_id = any(${[...new Set(wanted.map((s) => s.account))]}::text[])
        order by account_id for share`.execute(trx);
        await sql`
      insert into budget (budget_id, scope, account_id, lim)
      select w.budget_id, w.scope, a.account_id, case w.scope
        when 'account_month' then a.monthly_limit when 'key_month' then k.monthly_limit
        when 'project_month' then p.monthly_limit else w.lim end
      from unnest(${wanted.map((s) => s.budgetId)}::text[], ${wanted.map((s) => s.kind)}::text[],
        ${wanted.map((s) => s.account)}::text[], ${wanted.map((s) => s.key)}::text[],
        ${wanted.map((s) => s.limit?.toString() ?? null)}::bigint[]) as w (budget_id, scope, account_id, key_id, lim)
      join account a on a.account_id = w.account_id
      left join api_key k on k.token_id = w.key_id and k.account_id = w.account_id
      left join project p on p.project_id = k.project_id and p.account_id = w.account_id
      where (w.scope <> 'key_month' or k.token_id is not null) and (w.scope <> 'project_month' or p.project_id is not null)
      order by w.budget_id on conflict do nothing`.execute(trx);
      });
    if (known.size > maxKnown) known.clear();
    for (const scope of unknown) known.add(scope.budgetId);
  };
}

const isOfProvider = ({ provider }: BudgetScope): boolean => provider !== undefined;

/** A changed limit locks the provider first, and then finds the new row. */
async function makeProviderBudgets(db: Db, scopes: readonly BudgetScope[]): Promise<void> {
  const providers = scopes.map(({ provider }) => provider as DeploymentId);
  await inTransaction(db, async (trx) => {
    await sql`select from provider where deploy_id = any(${[...new Set(providers)]}::text[])
      order by deploy_id for share`.execute(trx);
    await sql`
      insert into budget (budget_id, scope, account_id, lim)
      select w.budget_id, w.scope, d.account_id, case w.scope when 'provider_month' then p.month_limit else p.day_limit end
      from unnest(${scopes.map((s) => s.budgetId)}::text[], ${scopes.map((s) => s.kind)}::text[], ${providers}::text[])
        as w (budget_id, scope, deploy_id)
      join provider p using (deploy_id) join deployment d using (deploy_id)
      order by w.budget_id on conflict do nothing`.execute(trx);
  });
}
