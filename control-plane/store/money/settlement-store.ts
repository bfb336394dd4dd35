import { type Kysely, sql, type Transaction } from "kysely";
import {
  type AccountId,
  accountBudget,
  type BudgetId,
  type KeyId,
  type LeaseId,
  type ReplicaId,
  type RequestId,
} from "../../../proto/ids.ts";
import { nano } from "../../../proto/money.ts";
import type { DeliveredCount, MoneyRules, NewFacts, SettledRecord, SettlementStore } from "../../billing/store.ts";
import { asking } from "../core/outage.ts";
import type { Database } from "../core/schema.ts";
import { createBudgetMaker } from "./budget-making.ts";
import { movingMoney } from "./budget-rows.ts";
import { ensureMoneyMonths } from "./money-months.ts";
import { isPlain, settlePlain } from "./settle-plain.ts";
import { type Found, findMoney, keyOf, MetAtOnce, newRow, writeMoney } from "./settlement-rows.ts";

type Trx = Transaction<Database>;

/** None whose request has an attempt in the group that is not plain: of several attempts one pays, and they settle together. */
function plainOf(records: readonly SettledRecord[]): readonly SettledRecord[] {
  const apart = new Set(records.filter((record) => !isPlain(record)).map(({ requestId }) => requestId));
  return records.filter((record) => isPlain(record) && !apart.has(record.requestId));
}

/** `hasShortWay` false: everything goes by `post`, as tests compare. */
export function createSettlementStore(db: Kysely<Database>, hasShortWay = true): SettlementStore {
  const makeBudgets = createBudgetMaker(db);

  const settleAll = (facts: NewFacts, rules: MoneyRules) =>
    movingMoney(db, async (trx) => {
      await insertCounts(trx, [...facts.counts].sort(byKey));
      const budgets = await budgetsOf(trx, facts, rules);
      const found = await findMoney(trx, facts, budgets);
      requireMonths(found.rows, new Set(budgets), rules);
      const known = new Set(found.rows.map((row) => keyOf(row.requestId, row.attempt)));
      const fresh = facts.records.filter((record) => !known.has(keyOf(record.requestId, record.attempt)));
      const delivered = found.delivered;
      const rows = [...found.rows, ...fresh.map((record) => newRow(record, delivered))];
      const postings = rules.post({ ...found, rows });
      await writeMoney(trx, fresh, postings, found.leases);
      return { fresh: new Set(fresh.map((record) => keyOf(record.requestId, record.attempt))), postings };
    });

  return {
    async settle(facts, rules) {
      await asking(() => makeBudgets(facts.records.flatMap((record) => rules.months(record, record.admittedAtMs))));
      const plain = hasShortWay && facts.counts.length === 0 ? plainOf(facts.records) : [];
      if (plain.length === 0 || !(await asking(() => settlePlain(db, plain, rules.months))))
        return await settleAll(facts, rules);
      const fresh = new Set(plain.map((record) => keyOf(record.requestId, record.attempt)));
      if (plain.length === facts.records.length) return { fresh, postings: undefined };
      const rest = facts.records.filter((record) => !fresh.has(keyOf(record.requestId, record.attempt)));
      const settled = await settleAll({ records: rest, counts: [] }, rules);
      return { fresh: new Set([...fresh, ...settled.fresh]), postings: settled.postings };
    },

    deliveredOf: (requests) =>
      asking(async () => {
        const rows = await db
          .selectFrom("deliveredCount")
          .selectAll()
          .where("requestId", "in", [...requests])
          .execute();
        return new Map(
          rows.map((row) => [
            keyOf(row.requestId, row.attempt),
            {
              requestId: row.requestId as RequestId,
              attempt: row.attempt,
              account: row.accountId as AccountId,
              outputTokens: Number(row.outputTokens),
              leaseIds: row.leaseIds as LeaseId[],
              hold: nano(row.hold),
            },
          ]),
        );
      }),

    liveReplicas: (replicas, withinMs) =>
      asking(async () => {
        if (replicas.length === 0) return new Set<ReplicaId>();
        const { rows } = await sql<{ replicaId: ReplicaId }>`
          select replica_id from replica where replica_id = any(${[...replicas]}::text[])
            and seen_at > now() - make_interval(secs => ${withinMs / 1000})`.execute(db);
        return new Set(rows.map((row) => row.replicaId));
      }),

    ensureMoneyMonths: (now) => asking(() => ensureMoneyMonths(db, now)),

    recentImbalance: () =>
      asking(async () => {
        const { rows } = await sql<{ sum: bigint }>`
          select coalesce(sum(abs(total)), 0)::bigint as sum from (
            select sum(amount) as total from ledger_entry where posted_at > now() - interval '10 minutes'
            group by transaction_id having sum(amount) <> 0) unbalanced`.execute(db);
        return rows[0]?.sum ?? 0n;
      }),
  };
}

/** A record that was committed while this waited for its account: its months are not locked yet. Begins anew. */
function requireMonths(rows: Found["rows"], locked: ReadonlySet<BudgetId>, rules: MoneyRules): void {
  for (const row of rows)
    for (const { budgetId } of rules.months(row, row.admittedAtMs))
      if (!locked.has(budgetId)) throw new MetAtOnce("a record of the same request was settled meanwhile");
}

type Keyed = { readonly requestId: string; readonly attempt: number };
const byKey = (a: Keyed, b: Keyed) =>
  a.requestId < b.requestId ? -1 : a.requestId > b.requestId ? 1 : a.attempt - b.attempt;

async function insertCounts(trx: Trx, counts: readonly DeliveredCount[]): Promise<string[]> {
  if (counts.length === 0) return [];
  const rows = await trx
    .insertInto("deliveredCount")
    .values(
      counts.map((count) => ({
        requestId: count.requestId,
        attempt: count.attempt,
        accountId: count.account,
        outputTokens: BigInt(count.outputTokens),
        leaseIds: [...count.leaseIds],
        hold: count.hold,
      })),
    )
    .onConflict((conflict) => conflict.doNothing())
    .returning(["requestId", "attempt"])
    .execute();
  return rows.map((row) => keyOf(row.requestId, row.attempt));
}

/** The accounts' own budgets and the months the facts count in; those that their leases lie on are found with the leases. */
async function budgetsOf(trx: Trx, { records, counts }: NewFacts, rules: MoneyRules): Promise<BudgetId[]> {
  const ids = new Set<BudgetId>();
  for (const { account } of [...records, ...counts]) ids.add(accountBudget(account));
  const addMonths = (owner: Parameters<MoneyRules["months"]>[0], admittedAtMs: number) => {
    for (const { budgetId } of rules.months(owner, admittedAtMs)) ids.add(budgetId);
  };
  for (const record of records) addMonths(record, record.admittedAtMs);
  if (counts.length > 0) {
    const { rows } = await sql<{ account: AccountId; key: KeyId; admittedAt: Date }>`
      select account_id as account, key_id as key, admitted_at from usage
      where request_id = any(${counts.map((count) => count.requestId)}::text[])`.execute(trx);
    for (const row of rows) addMonths(row, row.admittedAt.getTime());
  }
  return [...ids];
}
