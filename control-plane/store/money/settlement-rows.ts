// The two statements of a settlement. Each is a function of the database (migrations/0041-baseline.ts): one round trip,
// planned once per connection. `settle_find` locks in the order of every lock and reads the records only then, so that another attempt of the
// same request, settled elsewhere, is seen here or sees this one.
import { sql, type Transaction } from "kysely";
import {
  type AccountId,
  type BudgetId,
  type KeyId,
  type LeaseId,
  type RequestId,
  randomId,
} from "../../../proto/ids.ts";
import { nano } from "../../../proto/money.ts";
import { type NamedUsageField, type UsageName, type UsageValues, usageFieldList } from "../../../proto/usage-record.ts";
import type { BudgetRow, LeaseRow, NewFacts, Posting, Postings, SettledRecord, UsageRow } from "../../billing/store.ts";
import type { Database } from "../core/schema.ts";

type Trx = Transaction<Database>;

export const keyOf = (requestId: string, attempt: number): string => `${requestId}/${attempt}`;

export interface Found {
  readonly budgets: readonly BudgetRow[];
  readonly leases: readonly LeaseRow[];
  /** Of these requests, as they stand. */
  readonly rows: readonly UsageRow[];
  /** The gateway's counts, by `keyOf`. */
  readonly delivered: ReadonlyMap<string, number>;
}

/** Attempts of one request are admitted at one time; a margin, and most months need not be searched. */
export const attemptsWithinMs = 2 * 86_400_000;

export async function findMoney(trx: Trx, facts: NewFacts, budgets: readonly BudgetId[]): Promise<Found> {
  const both = [...facts.records, ...facts.counts];
  const leases = [...new Set(both.flatMap((fact) => fact.leaseIds))];
  const requests = [...new Set(both.map((fact) => fact.requestId))];
  // A count does not say when its request was admitted.
  const admitted = facts.counts.length > 0 ? [] : facts.records.map((record) => record.admittedAtMs);
  const from = admitted.length > 0 ? new Date(Math.min(...admitted) - attemptsWithinMs) : "-infinity";
  const to = admitted.length > 0 ? new Date(Math.max(...admitted) + attemptsWithinMs) : "infinity";
  const { rows } = await sql<{ found: FoundJson }>`
    select settle_find(${[...budgets]}::text[], ${leases}::text[], ${requests}::text[], ${from}::timestamptz,
      ${to}::timestamptz) as found`.execute(trx);
  const found = rows[0]?.found ?? {};
  const delivered = new Map((found.counts ?? []).map((row) => [keyOf(row.request_id, row.attempt), row.output_tokens]));
  return {
    delivered,
    budgets: (found.budgets ?? []).map((row) => ({
      budgetId: row.budget_id,
      limit: row.lim === null ? null : BigInt(row.lim),
      spent: BigInt(row.spent),
      leased: BigInt(row.leased),
    })),
    leases: (found.leases ?? []).map((row) => ({
      leaseId: row.lease_id,
      budgetId: row.budget_id,
      granted: BigInt(row.granted),
      settled: BigInt(row.settled),
      isOpen: row.is_open,
    })),
    rows: (found.rows ?? []).map((row) => ({
      requestId: row.request_id,
      attempt: row.attempt,
      admittedAtMs: row.admitted_ms,
      account: row.account_id,
      key: row.key_id,
      model: row.model,
      leaseIds: row.lease_ids,
      hold: nano(BigInt(row.hold)),
      inputTokens: row.input_tokens,
      cachedInputTokens: row.cached_input_tokens,
      outputTokens: row.output_tokens,
      rates: {
        input: BigInt(row.input_rate),
        cachedInput: BigInt(row.cached_input_rate),
        output: BigInt(row.output_rate),
      },
      priceVersion: BigInt(row.price_version),
      discountId: row.discount_id,
      cost: nano(BigInt(row.cost)),
      charge: nano(BigInt(row.charge)),
      isVoided: row.voided,
      isNew: false,
      deliveredTokens: delivered.get(keyOf(row.request_id, row.attempt)),
    })),
  };
}

export function newRow(record: SettledRecord, delivered: ReadonlyMap<string, number>): UsageRow {
  return {
    ...record,
    charge: nano(0n),
    isVoided: false,
    isNew: true,
    deliveredTokens: delivered.get(keyOf(record.requestId, record.attempt)),
  };
}

/** Another settlement of the same request got in between. Try again, from the start. */
export class MetAtOnce extends Error {
  readonly code = "40001";
}

export async function writeMoney(
  trx: Trx,
  fresh: readonly SettledRecord[],
  postings: Postings,
  leases: readonly LeaseRow[],
): Promise<void> {
  const tokenBudgets = new Map(
    leases.filter((lease) => lease.budgetId.startsWith("jwt/")).map((lease) => [lease.leaseId, lease.budgetId]),
  );
  const posted = new Map(postings.rows.map((row) => [keyOf(row.requestId, row.attempt), row]));
  const losses = new Map(postings.entries.map((of) => [keyOf(of.requestId, of.attempt), of.lossReason]));
  const added = fresh.map((record) => {
    const key = keyOf(record.requestId, record.attempt);
    const row = posted.get(key);
    posted.delete(key);
    const tokenBudget = record.leaseIds.map((id) => tokenBudgets.get(id)).find((id) => id !== undefined);
    return asColumns(record, tokenBudget, row?.charge ?? 0n, row?.isVoided ?? false, losses.get(key));
  });
  const changed = [...posted.values()].map((row) => ({
    request_id: row.requestId,
    attempt: row.attempt,
    admitted_at: iso(row.admittedAtMs),
    charge: String(row.charge),
    voided: row.isVoided,
  }));
  // What a new record moves follows from its row; only corrections are spelled out.
  const entries = postings.entries.filter((posting) => posting.isCorrection).flatMap(asEntries);
  const budgets = postings.budgets.map((b) => ({
    budget_id: b.budgetId,
    spent: String(b.spent),
    leased: String(b.leased),
  }));
  const leaseMoves = postings.leases.map((lease) => ({ lease_id: lease.leaseId, settled: String(lease.settled) }));
  if (added.length + changed.length + entries.length + budgets.length + leaseMoves.length === 0) return;
  const { rows } = await sql<{ inserted: number }>`
    select settle_write(${json(added)}, ${json(changed)}, ${json(entries)}, ${json(budgets)}, ${json(leaseMoves)})
      as inserted`.execute(trx);
  if (rows[0]?.inserted !== added.length) throw new MetAtOnce("a record was settled twice at once");
}

/** An empty list is not worth a statement. */
const json = (rows: readonly object[]): string | null => (rows.length === 0 ? null : JSON.stringify(rows));
const iso = (unixMs: number): string => new Date(unixMs).toISOString();

function asColumns(
  record: SettledRecord,
  tokenBudget: BudgetId | undefined,
  charge: bigint,
  isVoided: boolean,
  lossReason: string | undefined,
) {
  const posted = { ...valuesOf(record), tokenBudget, charge, isVoided };
  return { ...columnsOf(posted, usageFieldList), ...(lossReason === undefined ? {} : { loss_reason: lossReason }) };
}

/** Values by field. Unit rates only of a record with units: the columns of others keep their defaults. */
export function valuesOf(record: SettledRecord): Partial<UsageValues> {
  const { units, rates } = record;
  const tokenRates = { inputRate: rates.input, cachedInputRate: rates.cachedInput, outputRate: rates.output };
  if (!units) return { ...record, ...tokenRates };
  const unitRates = {
    characterRate: rates.units?.characters ?? 0n,
    audioRate: rates.units?.audio ?? 0n,
    imageRate: rates.units?.images ?? 0n,
    imageUnit: rates.units?.imageUnit ?? 0n,
  };
  return { ...record, ...tokenRates, ...units, ...unitRates };
}

/** Columns as JSON: bigints as text, because JSON numbers end at 2^53. */
export function columnsOf(
  values: { readonly [N in UsageName]?: UsageValues[N] | undefined },
  fields: readonly NamedUsageField[],
) {
  const columns: Record<string, unknown> = {};
  for (const { name, column, type } of fields) {
    const value = values[name];
    if (value !== undefined)
      columns[column] = type === "amount" ? String(value) : type === "time" ? iso(value as number) : value;
  }
  return columns;
}

/** The entries of a correction: its charge and its loss are a ledger transaction each, of two entries that sum to 0. */
function asEntries(posting: Posting): object[] {
  const { charge, loss, lossReason } = posting;
  return [
    ...asMove(posting, "customer_available", "customer_spent", charge, "correction", null),
    ...asMove(posting, "platform_revenue", "platform_loss", loss, "loss", lossReason ?? null),
  ];
}

function asMove(of: Posting, from: string, to: string, amount: bigint, kind: string, note: string | null): object[] {
  if (amount === 0n) return [];
  const common = {
    transaction_id: randomId(20),
    account_id: of.account,
    kind,
    request_id: of.requestId,
    attempt: of.attempt,
    key_id: of.key,
    model: of.model,
    price_version: String(of.priceVersion),
    discount_id: of.discountId,
    note,
  };
  return [
    { ...common, book: from, amount: String(-amount) },
    { ...common, book: to, amount: String(amount) },
  ];
}

interface FoundJson {
  readonly budgets?: readonly {
    readonly budget_id: BudgetId;
    readonly lim: string | null;
    readonly spent: string;
    readonly leased: string;
  }[];
  readonly leases?: readonly {
    readonly lease_id: LeaseId;
    readonly budget_id: BudgetId;
    readonly granted: string;
    readonly settled: string;
    readonly is_open: boolean;
  }[];
  readonly counts?: readonly {
    readonly request_id: string;
    readonly attempt: number;
    readonly output_tokens: number;
  }[];
  /** bigint columns as text: JSON numbers end at 2^53. */
  readonly rows?: readonly {
    readonly request_id: RequestId;
    readonly attempt: number;
    readonly admitted_ms: number;
    readonly account_id: AccountId;
    readonly key_id: KeyId;
    readonly model: string;
    readonly lease_ids: LeaseId[];
    readonly hold: string;
    readonly input_tokens: number;
    readonly cached_input_tokens: number;
    readonly output_tokens: number;
    readonly input_rate: string;
    readonly cached_input_rate: string;
    readonly output_rate: string;
    readonly price_version: string;
    readonly discount_id: string | null;
    readonly cost: string;
    readonly charge: string;
    readonly voided: boolean;
  }[];
}
