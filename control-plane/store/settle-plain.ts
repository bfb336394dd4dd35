// The common settlement in one call of the database (migrations/settlement-functions.ts): first attempts within their holds, on
// open leases. Whatever else there is goes the long way, by `post`; test/integration/billing/settle-plain.test.ts holds that
// both ways end in the same books.
import { type Kysely, sql } from "kysely";
import { accountBudget, type BudgetId } from "../../proto/ids.ts";
import type { MoneyRules, SettledRecord } from "../billing/store.ts";
import { retrying } from "./database.ts";
import type { Database } from "./schema.ts";
import { attemptsWithinMs } from "./settlement-rows.ts";

/** Worth trying: what can be seen of a record alone. */
export const isPlain = (record: SettledRecord): boolean =>
  record.units === undefined &&
  record.gpuMs === 0 &&
  record.attempt === 1 &&
  record.cost <= record.hold &&
  record.leaseIds.length > 0 &&
  record.source !== "counted";

/** What records of one payer, model and instance have in common. */
interface Lot {
  readonly n: number;
  readonly budget_ids: readonly BudgetId[];
  cost: bigint;
  readonly shared: object;
}

/** False: nothing was written, at least one of them needs more than this. */
export async function settlePlain(
  db: Kysely<Database>,
  records: readonly SettledRecord[],
  months: MoneyRules["months"],
): Promise<boolean> {
  const { lots, numbers } = lotsOf(records, months);
  const budgets = new Set(lots.flatMap((lot) => lot.budget_ids));
  const leases = new Set(records.flatMap((record) => record.leaseIds));
  const admitted = records.map((record) => record.admittedAtMs);
  const shared = JSON.stringify(
    lots.map(({ shared, n, budget_ids, cost }) => ({ ...shared, n, budget_ids, cost: `${cost}` })),
  );
  const column = (value: (record: SettledRecord) => number | bigint) => `{${records.map(value).join()}}`;
  const { rows } = await retrying(() =>
    sql<{ done: boolean }>`
      select settle_plain(${shared}, ${[...budgets]}::text[], ${[...leases]}::text[],
        ${new Date(least(admitted) - attemptsWithinMs)}::timestamptz, ${new Date(most(admitted) + attemptsWithinMs)}::timestamptz,
        ${records.map((record) => record.requestId)}::text[], ${`{${numbers.join()}}`}::integer[],
        ${column((r) => r.admittedAtMs)}::bigint[], ${column((r) => r.endedAtMs)}::bigint[],
        ${column((r) => r.hold)}::bigint[], ${column((r) => r.cost)}::bigint[], ${column((r) => r.inputTokens)}::bigint[],
        ${column((r) => r.cachedInputTokens)}::bigint[], ${column((r) => r.outputTokens)}::bigint[],
        ${column((r) => r.reasoningTokens)}::bigint[], ${column((r) => r.queueMs)}::integer[],
        ${column((r) => r.firstByteMs)}::integer[], ${column((r) => r.totalMs)}::integer[]) as done`.execute(db),
  );
  return rows[0]?.done === true;
}

function lotsOf(records: readonly SettledRecord[], months: MoneyRules["months"]) {
  const known = new Map<string, Lot>();
  const numbers: number[] = [];
  for (const record of records) {
    const shared = sharedOf(record);
    const owned = months(record, record.admittedAtMs).map((scope) => scope.budgetId);
    const key = `${owned.join()}|${Object.values(shared).join("|")}`;
    let lot = known.get(key);
    if (!lot) {
      lot = { n: known.size, budget_ids: [accountBudget(record.account), ...owned], cost: 0n, shared };
      known.set(key, lot);
    }
    lot.cost += record.cost;
    numbers.push(lot.n);
  }
  return { lots: [...known.values()], numbers };
}

const sharedOf = (record: SettledRecord) => ({
  account_id: record.account,
  key_id: record.key,
  replica_id: record.replica,
  model: record.model,
  deploy_id: record.deployId,
  instance_id: record.instanceId,
  node_epoch: `${record.nodeEpoch}`,
  lease_ids: record.leaseIds,
  source: record.source,
  end_reason: record.endReason,
  price_version: `${record.priceVersion}`,
  input_rate: `${record.rates.input}`,
  cached_input_rate: `${record.rates.cachedInput}`,
  output_rate: `${record.rates.output}`,
  discount_id: record.discountId,
});

const least = (numbers: readonly number[]) => numbers.reduce((a, b) => Math.min(a, b));
const most = (numbers: readonly number[]) => numbers.reduce((a, b) => Math.max(a, b));
