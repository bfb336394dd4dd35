import { CompiledQuery, sql } from "kysely";
import type { AccountId, KeyId, ReplicaId } from "../../../proto/ids.ts";
import { type UsageName, usageFieldList } from "../../../proto/usage-record.ts";
import type {
  BudgetScope,
  DeliveredCount,
  LossReason,
  NewFacts,
  SettledRecord,
  SettlementStore,
} from "../../billing/store.ts";
import { retrying, uniqueViolation } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";
import { createBudgetMaker } from "./budget-rows.ts";
import { withEndUserIds } from "./end-user-store.ts";
import { ensureMoneyMonths } from "./money-months.ts";
import { deliveredColumns } from "./unrecorded-store.ts";

/** Returns the months that a record counts in. */
type MonthScopes = (
  owner: { readonly account: AccountId; readonly key: KeyId },
  admittedAtMs: number,
) => readonly BudgetScope[];

/** Attempts of one request are admitted at one time; a margin, and most months need not be searched. */
const attemptsWithinMs = 2 * 86_400_000;

/** `settle` of the database (migrations/0067-settle-by-day.ts) does the work: one round trip, which is a transaction by itself. */
export function createSettlementStore(db: Db, monthScopes: MonthScopes): SettlementStore {
  const makeBudgets = createBudgetMaker(db);

  async function settle({ records: given, counts }: NewFacts) {
    const records = await withEndUserIds(db, given);
    const { lots, numbers } = lotsOf(records);
    await makeBudgets([
      ...lots.flatMap(({ first }) => monthScopes(first, first.admittedAtMs)),
      ...records.flatMap(({ provider }) => (provider && provider.amount > 0n ? provider.scopes : [])),
    ]);
    const costs = records.flatMap(costColumns);
    const values = [
      lots.map(({ columns }) => JSON.stringify(columns)),
      list(numbers),
      records.map((record) => record.requestId),
      list(records.map((record) => record.attempt)),
      // A lone record is its lot.
      ...measures.map(({ read }) => (records.length === 1 ? null : list(records.map(read)))),
      counts.length === 0 ? null : JSON.stringify(counts.map(countColumns)),
      ...lookupRange(records, counts),
    ];
    let looksBack = counts.length > 0 || records.some((record) => record.attempt > 1);
    const { rows } = await retrying(() => {
      const call =
        costs.length === 0
          ? CompiledQuery.raw(callSettle, [...values, looksBack])
          : CompiledQuery.raw(callSettleWithProviders, [...values, looksBack, JSON.stringify(costs)]);
      // A second try is due to what another settlement did in the meantime.
      looksBack = true;
      return db.executeQuery<{ reply: Reply | null }>(call).catch(throwConflict);
    });
    const reply = rows[0]?.reply;
    const isRepeated = new Set(reply?.repeated);
    const fresh = records.filter((_, i) => !isRepeated.has(i + 1));
    return {
      fresh: new Set(fresh.map((record) => keyOf(record.requestId, record.attempt))),
      late: reply?.late ?? 0,
      losses: (reply?.losses ?? []).map(({ reason, amount }) => ({ reason, amount: BigInt(amount) })),
    };
  }

  return asked<SettlementStore>({
    settle,

    async deliveredOf(requests) {
      const rows = await db
        .selectFrom("deliveredCount")
        .select(deliveredColumns)
        .where("requestId", "in", [...requests])
        .execute();
      return new Map(rows.map((row) => [keyOf(row.requestId, row.attempt), row]));
    },

    async liveReplicas(replicas, withinMs) {
      if (replicas.length === 0) return new Set<ReplicaId>();
      const { rows } = await sql<{ replicaId: ReplicaId }>`
        select replica_id from replica where replica_id = any(${[...replicas]}::text[])
          and seen_at > now() - make_interval(secs => ${withinMs / 1000})`.execute(db);
      return new Set(rows.map((row) => row.replicaId));
    },

    async expiredBeforeMs() {
      const { rows } = await sql<{ before: Date }>`select expired_before as before from usage_retention`.execute(db);
      return rows[0]?.before.getTime();
    },

    ensureMoneyMonths: (now) => ensureMoneyMonths(db, now),

    async recentImbalance() {
      const { rows } = await sql<{ sum: bigint }>`
        select coalesce(sum(abs(total)), 0)::bigint as sum from (
          select sum(amount) as total from ledger_entry where posted_at > now() - interval '10 minutes'
          group by transaction_id having sum(amount) <> 0) unbalanced`.execute(db);
      return rows[0]?.sum ?? 0n;
    },
  });
}

/** Absent: every record was new, on time and paid in full. */
interface Reply {
  /** Positions, from 1. */
  readonly repeated: readonly number[] | null;
  readonly late: number;
  /** Amounts as text: JSON numbers end at 2^53. */
  readonly losses: readonly { readonly reason: LossReason; readonly amount: string }[] | null;
}

const keyOf = (requestId: string, attempt: number): string => `${requestId}/${attempt}`;

type Reader = (record: SettledRecord) => unknown;

const rateReaders: Partial<Record<UsageName, Reader>> = {
  inputRate: ({ rates }) => rates.input,
  cachedInputRate: ({ rates }) => rates.cachedInput,
  outputRate: ({ rates }) => rates.output,
  // Only of a record with units.
  characterRate: ({ units, rates }) => units && rates.units?.characters,
  audioRate: ({ units, rates }) => units && rates.units?.audio,
  imageRate: ({ units, rates }) => units && rates.units?.images,
  imageUnit: ({ units, rates }) => units && rates.units?.imageUnit,
};

function readerOf(name: UsageName, group: string | undefined): Reader {
  const inUnits = name as keyof NonNullable<SettledRecord["units"]>;
  if (group === "units") return ({ units }) => units?.[inUnits];
  return rateReaders[name] ?? ((record) => record[name as keyof SettledRecord]);
}

const fields = usageFieldList
  .filter(({ from }) => from !== "posting")
  .map(({ name, column, type, in: group }) => ({ name, column, type, read: readerOf(name, group) }));

/** Numbers that `settle` takes record by record, in the order of its arguments. */
const measureNames: readonly UsageName[] = [
  ...(["admittedAtMs", "endedAtMs", "hold", "cost"] as const),
  ...(["inputTokens", "cachedInputTokens", "outputTokens", "reasoningTokens"] as const),
  ...(["queueMs", "firstByteMs", "totalMs"] as const),
];
const measures = measureNames.flatMap((name) => fields.filter((field) => field.name === name));
/** Fields of a lot. */
const sharedFields = fields.filter(
  ({ name }) => name !== "requestId" && name !== "attempt" && !measureNames.includes(name),
);

const arrays = measures.map(({ type }, i) => `$${i + 5}::${type === "duration" ? "integer" : "bigint"}[]`);
const rest = ["json", "timestamptz", "timestamptz", "boolean"].map((type, i) => `$${i + 5 + arrays.length}::${type}`);
const settleOf = `settle($1::json[], $2::integer[], $3::text[], $4::integer[], ${[...arrays, ...rest]})`;
const callSettle = `/* prepared: settle */ select ${settleOf} as reply`;
/** One statement, so one transaction. */
const callSettleWithProviders = `select settle_providers(${settleOf}, $${arrays.length + rest.length + 5}::json) as reply`;

/** Rates paid to the provider for the record at position `i`. */
function costColumns({ provider }: SettledRecord, i: number): object[] {
  if (!provider || provider.amount === 0n) return [];
  const { scopes, leaseIds, amount } = provider;
  const [month, day] = scopes;
  return [{ position: i + 1, month: month.budgetId, day: day.budgetId, leases: leaseIds, amount: String(amount) }];
}

const list = (values: readonly unknown[]): string => `{${values.join()}}`;

interface Lot {
  readonly number: number;
  readonly first: SettledRecord;
  /** Columns of the usage table as JSON. */
  readonly columns: object;
}

/** Records of one payer, month, model and instance are one lot: their common values are sent once. */
function lotsOf(records: readonly SettledRecord[]): { lots: readonly Lot[]; numbers: readonly number[] } {
  const [first] = records;
  if (first && records.length === 1)
    return { lots: [{ number: 1, first, columns: columnsOf(first, fields) }], numbers: [1] };
  const lots = new Map<string, Lot>();
  let last: Lot | undefined;
  const numbers = records.map((record) => {
    // Most records are of the lot before: comparing values costs less than a key.
    if (last && isAlike(record, last.first)) return last.number;
    // PostgreSQL's texts have no NUL.
    let key = new Date(record.admittedAtMs).toISOString().slice(0, 7);
    for (const { read } of sharedFields) key += `\0${read(record)}`;
    let lot = lots.get(key);
    if (!lot) {
      const columns = { ...columnsOf(record, sharedFields), admitted_at: new Date(record.admittedAtMs) };
      lot = { number: lots.size + 1, first: record, columns };
      lots.set(key, lot);
    }
    last = lot;
    return lot.number;
  });
  return { lots: [...lots.values()], numbers };
}

const dayMs = 86_400_000;

/** Returns true only for records of one lot; false may also mean only that their days differ. */
function isAlike(one: SettledRecord, other: SettledRecord): boolean {
  if (Math.floor(one.admittedAtMs / dayMs) !== Math.floor(other.admittedAtMs / dayMs)) return false;
  for (const { read } of sharedFields) {
    const value = read(one);
    const known = read(other);
    if (value !== known && !(Array.isArray(value) && String(value) === String(known))) return false;
  }
  return true;
}

/** Columns without a value keep their defaults. Bigints travel as text, because JSON numbers end at 2^53. */
function columnsOf(record: SettledRecord, of: typeof fields): object {
  const columns: Record<string, unknown> = {};
  for (const { column, type, read } of of) {
    const value = read(record);
    if (value === undefined) continue;
    columns[column] = type === "amount" ? String(value) : type === "time" ? new Date(value as number) : value;
  }
  return columns;
}

/** No lock orders two settlements of one record whose account does not exist. */
function throwConflict(error: unknown): never {
  throw uniqueViolation(error) === undefined ? error : new SettledTwice("a record was settled twice at the same time");
}

class SettledTwice extends Error {
  readonly code = "40001";
}

/** A count does not include when its request was admitted. */
function lookupRange(
  records: readonly SettledRecord[],
  counts: readonly DeliveredCount[],
): [Date | string, Date | string] {
  if (counts.length > 0) return ["-infinity", "infinity"];
  const admitted = records.map((record) => record.admittedAtMs);
  return [new Date(Math.min(...admitted) - attemptsWithinMs), new Date(Math.max(...admitted) + attemptsWithinMs)];
}

const countColumns = (count: DeliveredCount) => ({
  request_id: count.requestId,
  attempt: count.attempt,
  account_id: count.account,
  output_tokens: count.outputTokens,
  lease_ids: count.leaseIds,
  hold: String(count.hold),
});
