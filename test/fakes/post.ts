// Specification of what records mean for the money; the database's function `settle` is held equal to it. Level-triggered: from all
// rows of a request it computes what the ledger should hold and posts the difference, so order, repetition and late facts end in the
// same state. Pure.
import { accountMonthBudget, keyMonthBudget } from "../../control-plane/billing/scopes.ts";
import type { BudgetRow, LeaseRow, LossReason } from "../../control-plane/billing/store.ts";
import {
  type AccountId,
  accountBudget,
  type BudgetId,
  type KeyId,
  type LeaseId,
  type RequestId,
} from "../../proto/ids.ts";
import { costOf, type NanoUsd, nano, type TokenRates } from "../../proto/money.ts";

/** A row of the usage table. */
export interface UsageRow {
  readonly requestId: RequestId;
  readonly attempt: number;
  readonly admittedAtMs: number;
  readonly account: AccountId;
  readonly key: KeyId;
  readonly model: string;
  readonly leaseIds: readonly LeaseId[];
  readonly hold: NanoUsd;
  readonly inputTokens: number;
  readonly cachedInputTokens: number;
  readonly outputTokens: number;
  readonly rates: TokenRates;
  readonly priceVersion: bigint;
  readonly discountId: string | null;
  readonly cost: NanoUsd;
  /** As posted so far. */
  readonly charge: NanoUsd;
  readonly isVoided: boolean;
  /** Inserted by this transaction: nothing is posted yet. */
  readonly isNew: boolean;
  /** The gateway's count of what it delivered of this attempt, where its upstream broke. */
  readonly deliveredTokens: number | undefined;
}

/** Everything is locked: all rows of the requests concerned, their budgets and leases. */
export interface FoundMoney {
  readonly rows: readonly UsageRow[];
  readonly budgets: readonly BudgetRow[];
  readonly leases: readonly LeaseRow[];
}

export interface Posting {
  readonly account: AccountId;
  readonly key: KeyId;
  readonly model: string;
  readonly requestId: RequestId;
  readonly attempt: number;
  readonly priceVersion: bigint;
  readonly discountId: string | null;
  /** Moves from customer_available to customer_spent; negative gives back. */
  readonly charge: bigint;
  /** Moves from platform_revenue to platform_loss. */
  readonly loss: bigint;
  readonly isCorrection: boolean;
  readonly lossReason: LossReason | undefined;
}

export interface Postings {
  readonly rows: readonly Pick<UsageRow, "requestId" | "attempt" | "admittedAtMs" | "charge" | "isVoided">[];
  readonly entries: readonly Posting[];
  readonly budgets: readonly { readonly budgetId: BudgetId; readonly spent: bigint; readonly leased: bigint }[];
  readonly leases: readonly { readonly leaseId: LeaseId; readonly settled: bigint }[];
  /** New records whose lease had gone back before they came. */
  readonly late: number;
}

interface OpenBudget {
  readonly limit: bigint | null;
  spent: bigint;
  leased: bigint;
}
interface OpenLease {
  readonly budgetId: BudgetId;
  readonly granted: bigint;
  settled: bigint;
}

export function post(found: FoundMoney): Postings {
  const budgets = new Map<BudgetId, OpenBudget>(found.budgets.map((b) => [b.budgetId, { ...b }]));
  const leases = new Map<LeaseId, OpenLease>(
    found.leases.filter((lease) => lease.isOpen).map((lease) => [lease.leaseId, { ...lease }]),
  );
  const budgetOfLease = new Map(found.leases.map((lease) => [lease.leaseId, lease.budgetId]));
  const rows: Postings["rows"][number][] = [];
  const entries: Posting[] = [];
  let late = 0;

  for (const attempts of byRequest(found.rows)) {
    const top = attempts[attempts.length - 1] as UsageRow;
    // Lower attempts first: what they took is what the highest one may take.
    for (const row of attempts) {
      const touched = scopesOf(row, budgets, budgetOfLease);
      if (row.isNew && row.leaseIds.length > 0 && !row.leaseIds.some((id) => leases.has(id))) late += 1;
      let charge = 0n;
      if (row !== top) move(-row.charge, touched, leases);
      else {
        const wanted = deserved(row);
        const allowed = touched.size === 0 ? 0n : least(wanted, row.charge + roomFor(touched, leases));
        charge = allowed > 0n ? allowed : 0n;
        move(charge - row.charge, touched, leases);
      }
      const isVoided = row !== top;
      const chargeMoved = charge - row.charge;
      const lossMoved = row.isNew ? row.cost - charge : -chargeMoved;
      if (row.isNew || chargeMoved !== 0n || isVoided !== row.isVoided) {
        rows.push({ ...keyOf(row), charge: nano(charge), isVoided });
      }
      if (chargeMoved !== 0n || lossMoved !== 0n) {
        const lossReason = lossMoved > 0n ? reasonOf(row, charge, isVoided, touched.size === 0) : undefined;
        entries.push({ ...ownerOf(row), charge: chargeMoved, loss: lossMoved, isCorrection: !row.isNew, lossReason });
      }
    }
  }
  return {
    rows,
    entries,
    late,
    budgets: found.budgets.flatMap(({ budgetId, spent, leased }) => {
      const now = budgets.get(budgetId) as OpenBudget;
      return now.spent === spent && now.leased === leased
        ? []
        : [{ budgetId, spent: now.spent - spent, leased: now.leased - leased }];
    }),
    leases: found.leases.flatMap(({ leaseId, settled }) => {
      const now = leases.get(leaseId);
      return now && now.settled !== settled ? [{ leaseId, settled: now.settled - settled }] : [];
    }),
  };
}

/** What the customer owes for the attempt if it counts: never more than was held, nor than was delivered. */
function deserved(row: UsageRow): bigint {
  return least(least(row.cost, row.hold), deliveredCost(row));
}

function deliveredCost(row: UsageRow): bigint {
  if (row.deliveredTokens === undefined) return row.cost;
  // Nothing delivered is nothing billed, the prompt included, also where the engine made nothing either.
  if (row.deliveredTokens === 0) return 0n;
  if (row.deliveredTokens >= row.outputTokens) return row.cost;
  return costOf({ input: row.inputTokens, cachedInput: row.cachedInputTokens, output: row.deliveredTokens }, row.rates);
}

/** The budgets a row is charged to, each with the lease that its hold lay on there. */
function scopesOf(
  row: UsageRow,
  budgets: Map<BudgetId, OpenBudget>,
  budgetOfLease: ReadonlyMap<LeaseId, BudgetId>,
): Map<OpenBudget, LeaseId | undefined> {
  const scopes = new Map<OpenBudget, LeaseId | undefined>();
  for (const id of [
    accountBudget(row.account),
    accountMonthBudget(row.account, row.admittedAtMs),
    keyMonthBudget(row.key, row.admittedAtMs),
  ]) {
    const budget = budgets.get(id);
    if (budget) scopes.set(budget, undefined);
  }
  for (const leaseId of row.leaseIds) {
    const budgetId = budgetOfLease.get(leaseId);
    const budget = budgetId === undefined ? undefined : budgets.get(budgetId);
    if (budget) scopes.set(budget, leaseId);
  }
  return scopes;
}

/** How much more the row may take: from its open leases, and from what the limits leave beside all leases. */
function roomFor(
  touched: ReadonlyMap<OpenBudget, LeaseId | undefined>,
  leases: ReadonlyMap<LeaseId, OpenLease>,
): bigint {
  let room: bigint | undefined;
  for (const [budget, leaseId] of touched) {
    if (budget.limit === null) continue;
    const lease = leaseId === undefined ? undefined : leases.get(leaseId);
    const inLease = lease ? atLeastZero(lease.granted - lease.settled) : 0n;
    const here = inLease + atLeastZero(budget.limit - budget.spent - budget.leased);
    if (room === undefined || here < room) room = here;
  }
  return room ?? 1n << 62n;
}

/** Moves a charge (or gives it back, below zero) in every scope; the part that lies on an open lease leaves it or returns. */
function move(
  amount: bigint,
  touched: ReadonlyMap<OpenBudget, LeaseId | undefined>,
  leases: ReadonlyMap<LeaseId, OpenLease>,
): void {
  if (amount === 0n) return;
  for (const [budget, leaseId] of touched) {
    budget.spent += amount;
    const lease = leaseId === undefined ? undefined : leases.get(leaseId);
    if (!lease) continue;
    const left = atLeastZero(lease.granted - lease.settled);
    const part = amount > 0n ? least(amount, left) : -least(-amount, lease.settled);
    lease.settled += part;
    budget.leased -= part;
  }
}

function reasonOf(row: UsageRow, charge: bigint, isVoided: boolean, isOrphan: boolean): LossReason {
  if (isOrphan) return "orphan";
  if (isVoided) return "void_attempt";
  if (charge < deserved(row)) return "above_limit";
  return deliveredCost(row) < least(row.cost, row.hold) ? "undelivered" : "above_hold";
}

/** Rows of one request together, lowest attempt first. */
function byRequest(rows: readonly UsageRow[]): UsageRow[][] {
  const requests = new Map<RequestId, UsageRow[]>();
  for (const row of rows) {
    const known = requests.get(row.requestId);
    if (known) known.push(row);
    else requests.set(row.requestId, [row]);
  }
  return [...requests.values()].map((attempts) => attempts.sort((a, b) => a.attempt - b.attempt));
}

const least = (a: bigint, b: bigint): bigint => (a < b ? a : b);
const atLeastZero = (a: bigint): bigint => (a > 0n ? a : 0n);
const keyOf = ({ requestId, attempt, admittedAtMs }: UsageRow) => ({ requestId, attempt, admittedAtMs });
const ownerOf = ({ account, key, model, requestId, attempt, priceVersion, discountId }: UsageRow) => ({
  account,
  key,
  model,
  requestId,
  attempt,
  priceVersion,
  discountId,
});
