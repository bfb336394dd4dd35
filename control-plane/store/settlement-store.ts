import { type Kysely, sql, type Transaction } from "kysely";
import type { AccountId, BudgetId, KeyId, LeaseId, ReplicaId, RequestId } from "../../proto/ids.ts";
import { nano } from "../../proto/money.ts";
import type {
  DeliveredCount,
  MoneyRules,
  Posting,
  Postings,
  SettledRecord,
  SettlementStore,
  UsageRow,
} from "../billing/store.ts";
import { createBudgetMaker } from "./budget-making.ts";
import { lockBudgets, lockLeases, moveBudgets, moveLeases, movingMoney } from "./budget-rows.ts";
import { asking } from "./database.ts";
import { type LedgerMove, writeLedger } from "./ledger-rows.ts";
import { ensureMoneyMonths } from "./money-months.ts";
import type { Database } from "./schema.ts";

type Trx = Transaction<Database>;
const keyOf = (requestId: string, attempt: number) => `${requestId}/${attempt}`;

export function createSettlementStore(db: Kysely<Database>): SettlementStore {
  const makeBudgets = createBudgetMaker(db);
  return {
    async settle(facts, rules) {
      await asking(() => makeBudgets(facts.records.flatMap((record) => rules.months(record, record.admittedAtMs))));
      return await movingMoney(db, async (trx) => {
        // Sorted: two replicas that are sent the same records wait for each other in one order.
        const records = [...facts.records].sort(byKey);
        const fresh = new Set(await insertRecords(trx, records));
        const counted = new Set(await insertCounts(trx, [...facts.counts].sort(byKey)));
        const touched = [
          ...records.filter((record) => fresh.has(keyOf(record.requestId, record.attempt))),
          ...facts.counts.filter((count) => counted.has(keyOf(count.requestId, count.attempt))),
        ];
        if (touched.length === 0) return { fresh, postings: undefined };
        const leaseIds = [...new Set(touched.flatMap((fact) => fact.leaseIds))].sort();
        const requests = [...new Set(touched.map((fact) => fact.requestId))];
        const budgets = await lockBudgets(trx, await budgetsOf(trx, leaseIds, touched, rules));
        const leases = await lockLeases(trx, leaseIds);
        // Read after the locks: another attempt of the same request, settled elsewhere, is seen here or sees this one.
        const rows = await rowsOf(trx, requests, fresh);
        const postings = rules.post({ rows, budgets, leases });
        await updateRows(trx, postings.rows);
        await writeLedger(trx, postings.entries.flatMap(asMoves));
        await moveBudgets(trx, postings.budgets);
        await moveLeases(trx, postings.leases);
        return { fresh, postings };
      });
    },

    deliveredOf: (requests) =>
      asking(async () => {
        const rows = await db
          .selectFrom("delivered_count")
          .selectAll()
          .where("request_id", "in", [...requests])
          .execute();
        return new Map(
          rows.map((row) => [
            keyOf(row.request_id, row.attempt),
            {
              requestId: row.request_id as RequestId,
              attempt: row.attempt,
              account: row.account_id as AccountId,
              outputTokens: Number(row.output_tokens),
              leaseIds: row.lease_ids as LeaseId[],
              hold: nano(row.hold),
            },
          ]),
        );
      }),

    liveReplicas: (replicas, withinMs) =>
      asking(async () => {
        if (replicas.length === 0) return new Set<ReplicaId>();
        const { rows } = await sql<{ replica_id: ReplicaId }>`
          select replica_id from replica where replica_id = any(${[...replicas]}::text[])
            and seen_at > now() - make_interval(secs => ${withinMs / 1000})`.execute(db);
        return new Set(rows.map((row) => row.replica_id));
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

type Keyed = { readonly requestId: string; readonly attempt: number };
const byKey = (a: Keyed, b: Keyed) =>
  a.requestId < b.requestId ? -1 : a.requestId > b.requestId ? 1 : a.attempt - b.attempt;

async function insertRecords(trx: Trx, records: readonly SettledRecord[]): Promise<string[]> {
  if (records.length === 0) return [];
  const { rows } = await sql<{ request_id: string; attempt: number }>`
    insert into usage (request_id, attempt, admitted_at, account_id, key_id, replica_id, model, deploy_id, instance_id,
      node_epoch, lease_ids, hold, input_tokens, cached_input_tokens, output_tokens, reasoning_tokens, gpu_ms, source, end_reason,
      price_version, input_rate, cached_input_rate, output_rate, cost, charge, queue_ms, first_byte_ms, total_ms, ended_at)
    select request_id, attempt, admitted_at, account_id, key_id, replica_id, model, deploy_id, instance_id,
      node_epoch, lease_ids, hold, input_tokens, cached_input_tokens, output_tokens, reasoning_tokens, gpu_ms, source, end_reason,
      price_version, input_rate, cached_input_rate, output_rate, cost, 0, queue_ms, first_byte_ms, total_ms, ended_at
    from json_populate_recordset(null::usage, ${JSON.stringify(records.map(asColumns))}::json)
    on conflict (request_id, attempt, admitted_at) do nothing returning request_id, attempt`.execute(trx);
  return rows.map((row) => keyOf(row.request_id, row.attempt));
}

function asColumns(record: SettledRecord) {
  return {
    request_id: record.requestId,
    attempt: record.attempt,
    admitted_at: new Date(record.admittedAtMs),
    account_id: record.account,
    key_id: record.key,
    replica_id: record.replica,
    model: record.model,
    deploy_id: record.deployId,
    instance_id: record.instanceId,
    node_epoch: String(record.nodeEpoch),
    lease_ids: record.leaseIds,
    hold: String(record.hold),
    input_tokens: record.inputTokens,
    cached_input_tokens: record.cachedInputTokens,
    output_tokens: record.outputTokens,
    reasoning_tokens: record.reasoningTokens,
    gpu_ms: record.gpuMs,
    source: record.source,
    end_reason: record.endReason,
    price_version: String(record.priceVersion),
    input_rate: String(record.rates.input),
    cached_input_rate: String(record.rates.cachedInput),
    output_rate: String(record.rates.output),
    cost: String(record.cost),
    queue_ms: record.queueMs,
    first_byte_ms: record.firstByteMs,
    total_ms: record.totalMs,
    ended_at: new Date(record.endedAtMs),
  };
}

async function insertCounts(trx: Trx, counts: readonly DeliveredCount[]): Promise<string[]> {
  if (counts.length === 0) return [];
  const rows = await trx
    .insertInto("delivered_count")
    .values(
      counts.map((count) => ({
        request_id: count.requestId,
        attempt: count.attempt,
        account_id: count.account,
        output_tokens: BigInt(count.outputTokens),
        lease_ids: [...count.leaseIds],
        hold: count.hold,
      })),
    )
    .onConflict((conflict) => conflict.doNothing())
    .returning(["request_id", "attempt"])
    .execute();
  return rows.map((row) => keyOf(row.request_id, row.attempt));
}

/** The accounts' own budgets, the months the records count in, and the budgets that their leases lie on. */
async function budgetsOf(
  trx: Trx,
  leaseIds: readonly LeaseId[],
  facts: readonly (SettledRecord | DeliveredCount)[],
  rules: MoneyRules,
): Promise<BudgetId[]> {
  const ids = new Set(facts.map((fact) => `account/${fact.account}` as BudgetId));
  const addMonths = (owner: Parameters<MoneyRules["months"]>[0], admittedAtMs: number) => {
    for (const { budgetId } of rules.months(owner, admittedAtMs)) ids.add(budgetId);
  };
  for (const fact of facts) if ("key" in fact) addMonths(fact, fact.admittedAtMs);
  const counted = facts.filter((fact) => !("key" in fact)).map((fact) => fact.requestId);
  if (counted.length > 0) {
    const { rows } = await sql<{ account: AccountId; key: KeyId; admitted_at: Date }>`
      select account_id as account, key_id as key, admitted_at from usage
      where request_id = any(${counted}::text[])`.execute(trx);
    for (const row of rows) addMonths(row, row.admitted_at.getTime());
  }
  if (leaseIds.length > 0) {
    const { rows } = await sql<{ budget_id: BudgetId }>`
      select distinct budget_id from lease where lease_id = any(${[...leaseIds]}::text[])`.execute(trx);
    for (const row of rows) ids.add(row.budget_id);
  }
  return [...ids];
}

async function rowsOf(trx: Trx, requests: readonly RequestId[], fresh: ReadonlySet<string>): Promise<UsageRow[]> {
  const { rows } = await sql<{
    request_id: RequestId;
    attempt: number;
    admitted_at: Date;
    account_id: AccountId;
    key_id: KeyId;
    model: string;
    lease_ids: LeaseId[];
    hold: bigint;
    input_tokens: bigint;
    cached_input_tokens: bigint;
    output_tokens: bigint;
    input_rate: bigint;
    cached_input_rate: bigint;
    output_rate: bigint;
    cost: bigint;
    charge: bigint;
    voided: boolean;
    delivered: bigint | null;
  }>`
    select u.request_id, u.attempt, u.admitted_at, u.account_id, u.key_id, u.model, u.lease_ids, u.hold, u.input_tokens,
      u.cached_input_tokens, u.output_tokens, u.input_rate, u.cached_input_rate, u.output_rate, u.cost, u.charge, u.voided,
      d.output_tokens as delivered
    from usage u left join delivered_count d on d.request_id = u.request_id and d.attempt = u.attempt
    where u.request_id = any(${[...requests]}::text[])`.execute(trx);
  return rows.map((row) => ({
    requestId: row.request_id,
    attempt: row.attempt,
    admittedAtMs: row.admitted_at.getTime(),
    account: row.account_id,
    key: row.key_id,
    model: row.model,
    leaseIds: row.lease_ids,
    hold: nano(row.hold),
    inputTokens: Number(row.input_tokens),
    cachedInputTokens: Number(row.cached_input_tokens),
    outputTokens: Number(row.output_tokens),
    rates: { input: row.input_rate, cachedInput: row.cached_input_rate, output: row.output_rate },
    cost: nano(row.cost),
    charge: nano(row.charge),
    isVoided: row.voided,
    isNew: fresh.has(keyOf(row.request_id, row.attempt)),
    deliveredTokens: row.delivered === null ? undefined : Number(row.delivered),
  }));
}

async function updateRows(trx: Trx, rows: Postings["rows"]): Promise<void> {
  if (rows.length === 0) return;
  await sql`
    update usage set charge = m.charge, voided = m.voided
    from unnest(${rows.map((r) => r.requestId)}::text[], ${rows.map((r) => r.attempt)}::int[],
      ${rows.map((r) => new Date(r.admittedAtMs))}::timestamptz[], ${rows.map((r) => String(r.charge))}::bigint[],
      ${rows.map((r) => r.isVoided)}::boolean[]) as m (request_id, attempt, admitted_at, charge, voided)
    where usage.request_id = m.request_id and usage.attempt = m.attempt and usage.admitted_at = m.admitted_at`.execute(
    trx,
  );
}

function asMoves(posting: Posting): LedgerMove[] {
  const { account, key, model, requestId, attempt, charge, loss, lossReason } = posting;
  const owner = { account, key, model, requestId, attempt };
  const kind = posting.isCorrection ? ("correction" as const) : ("capture" as const);
  return [
    { ...owner, from: "customer_available", to: "customer_spent", amount: charge, kind },
    {
      ...owner,
      from: "platform_revenue",
      to: "platform_loss",
      amount: loss,
      kind: "loss",
      ...(lossReason ? { note: lossReason } : {}),
    },
  ];
}
