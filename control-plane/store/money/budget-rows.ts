// Rows of budgets and leases, locked in one order everywhere (budgets by id, then leases by id), so that grants, returns
// and settlements of the same money wait for each other instead of deadlocking.
import { sql } from "kysely";
import type { BudgetId, LeaseId } from "../../../proto/ids.ts";
import type { BudgetRow, LeaseRow } from "../../billing/store.ts";
import { inTransaction } from "../core/database.ts";
import { asking } from "../core/outage.ts";
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

/** A transaction that moves money. Throws DatabaseUnavailable when PostgreSQL cannot be asked. */
export function movingMoney<T>(db: Db, work: (trx: Trx) => Promise<T>): Promise<T> {
  return asking(() => inTransaction(db, work));
}
