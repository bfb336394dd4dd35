// The common settlement in one call of the database (migrations/0041-baseline.ts): first attempts within their holds, on
// open leases. Whatever else there is goes the long way, by `post`; test/integration/billing/settle-plain.test.ts holds that
// both ways end in the same books.
import { type Kysely, sql } from "kysely";
import { accountBudget, type BudgetId } from "../../../proto/ids.ts";
import { type UsageName, usageFieldList } from "../../../proto/usage-record.ts";
import type { MoneyRules, SettledRecord } from "../../billing/store.ts";
import { retrying } from "../core/database.ts";
import type { Database } from "../core/schema.ts";
import { attemptsWithinMs, columnsOf, valuesOf } from "./settlement-rows.ts";

/** Fields that records of one payer, model and instance have in common. */
const sharedNames: readonly UsageName[] = [
  "account",
  "key",
  "replica",
  "model",
  "deployId",
  "instanceId",
  "nodeEpoch",
  "leaseIds",
  "source",
  "endReason",
  "priceVersion",
  "inputRate",
  "cachedInputRate",
  "outputRate",
  "discountId",
];
const sharedFields = usageFieldList.filter(({ name }) => sharedNames.includes(name));

/** The other fields that `settle_plain` and `settle_one` write. */
const ownNames: readonly UsageName[] = [
  ...(["requestId", "attempt", "admittedAtMs", "endedAtMs", "hold", "cost"] as const),
  ...(["inputTokens", "cachedInputTokens", "outputTokens", "reasoningTokens"] as const),
  ...(["queueMs", "firstByteMs", "totalMs"] as const),
];

/** Fields that these functions leave at their defaults: a record with another value takes the long way. */
const unwritten = usageFieldList
  .filter(({ name, from }) => from !== "posting" && !sharedNames.includes(name) && !ownNames.includes(name))
  .filter(({ in: group }) => group === undefined)
  .map(({ name }) => name as keyof SettledRecord);

/** Worth trying: what can be seen of a record alone. */
export const isPlain = (record: SettledRecord): boolean =>
  record.units === undefined &&
  unwritten.every((name) => !record[name]) &&
  record.attempt === 1 &&
  record.cost <= record.hold &&
  record.leaseIds.length > 0 &&
  record.source !== "counted";

/** Beside the shared fields. */
interface Lot {
  readonly n: number;
  readonly budget_ids: readonly BudgetId[];
}

/** False: nothing was written, at least one of them needs more than this. */
export function settlePlain(
  db: Kysely<Database>,
  records: readonly SettledRecord[],
  months: MoneyRules["months"],
): Promise<boolean> {
  const [first] = records;
  return first && records.length === 1 && first.leaseIds.length === 1
    ? settleOne(db, first, months)
    : settleMany(db, records, months);
}

async function settleOne(db: Kysely<Database>, one: SettledRecord, months: MoneyRules["months"]): Promise<boolean> {
  const owned = [accountBudget(one.account), ...months(one, one.admittedAtMs).map((scope) => scope.budgetId)];
  const { rows } = await retrying(() =>
    sql<{ done: boolean }>`
      /* prepared: settle_one */ select settle_one(${owned}, ${one.leaseIds[0]},
        ${new Date(one.admittedAtMs - attemptsWithinMs)}, ${new Date(one.admittedAtMs + attemptsWithinMs)},
        ${one.requestId}, ${new Date(one.admittedAtMs)}, ${new Date(one.endedAtMs)}, ${one.account}, ${one.key},
        ${one.replica}, ${one.model}, ${one.deployId}, ${one.instanceId}, ${one.nodeEpoch}, ${one.leaseIds},
        ${one.source}, ${one.endReason}, ${one.priceVersion}, ${one.rates.input}, ${one.rates.cachedInput},
        ${one.rates.output}, ${one.discountId}, ${one.hold}, ${one.cost}, ${one.inputTokens}, ${one.cachedInputTokens},
        ${one.outputTokens}, ${one.reasoningTokens}, ${one.queueMs}, ${one.firstByteMs}, ${one.totalMs}) as done`.execute(
      db,
    ),
  );
  return rows[0]?.done === true;
}

async function settleMany(
  db: Kysely<Database>,
  records: readonly SettledRecord[],
  months: MoneyRules["months"],
): Promise<boolean> {
  const lots = new Map<string, Lot>();
  const numbers: number[] = [];
  const budgets = new Map<BudgetId, bigint>();
  const leases = new Map<string, bigint>();
  let firstMs = Number.POSITIVE_INFINITY;
  let lastMs = 0;
  for (const record of records) {
    const lot = lotOf(lots, record, months);
    numbers.push(lot.n);
    for (const id of lot.budget_ids) budgets.set(id, (budgets.get(id) ?? 0n) + record.cost);
    for (const id of record.leaseIds) leases.set(id, (leases.get(id) ?? 0n) + record.cost);
    firstMs = Math.min(firstMs, record.admittedAtMs);
    lastMs = Math.max(lastMs, record.admittedAtMs);
  }
  const list = (values: Iterable<number | bigint>) => `{${[...values].join()}}`;
  const column = (value: (record: SettledRecord) => number | bigint) => list(records.map(value));
  const { rows } = await retrying(() =>
    sql<{ done: boolean }>`
      /* prepared: settle_plain */ select settle_plain(${JSON.stringify([...lots.values()])}::json,
        ${[...budgets.keys()]}::text[], ${list(budgets.values())}::bigint[],
        ${[...leases.keys()]}::text[], ${list(leases.values())}::bigint[],
        ${new Date(firstMs - attemptsWithinMs)}::timestamptz, ${new Date(lastMs + attemptsWithinMs)}::timestamptz,
        ${records.map((record) => record.requestId)}::text[], ${list(numbers)}::integer[],
        ${column((r) => r.admittedAtMs)}::bigint[], ${column((r) => r.endedAtMs)}::bigint[],
        ${column((r) => r.hold)}::bigint[], ${column((r) => r.cost)}::bigint[], ${column((r) => r.inputTokens)}::bigint[],
        ${column((r) => r.cachedInputTokens)}::bigint[], ${column((r) => r.outputTokens)}::bigint[],
        ${column((r) => r.reasoningTokens)}::bigint[], ${column((r) => r.queueMs)}::integer[],
        ${column((r) => r.firstByteMs)}::integer[], ${column((r) => r.totalMs)}::integer[]) as done`.execute(db),
  );
  return rows[0]?.done === true;
}

function lotOf(known: Map<string, Lot>, record: SettledRecord, months: MoneyRules["months"]): Lot {
  const shared = columnsOf(valuesOf(record), sharedFields);
  const owned = months(record, record.admittedAtMs).map((scope) => scope.budgetId);
  const key = `${owned.join()}|${Object.values(shared).join("|")}`;
  let lot = known.get(key);
  if (!lot) {
    lot = { n: known.size, budget_ids: [accountBudget(record.account), ...owned], ...shared };
    known.set(key, lot);
  }
  return lot;
}
