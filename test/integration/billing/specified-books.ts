// The books as the specification of a settlement (test/fakes/post.ts) leaves them, in memory.
import { recordKey, type SettledRecord } from "../../../control-plane/billing/record.ts";
import { monthScopes } from "../../../control-plane/billing/scopes.ts";
import type { BudgetRow, LeaseRow, NewFacts, Settled } from "../../../control-plane/billing/store.ts";
import type { BudgetId, LeaseId } from "../../../proto/ids.ts";
import { type UsageValues, usageFieldList } from "../../../proto/usage-record.ts";
import { type Posting, post, type UsageRow } from "../../fakes/post.ts";
import type { World } from "./world.ts";

export interface Seed {
  readonly accounts: readonly string[];
  readonly keys: readonly string[];
  readonly budgets: readonly BudgetRow[];
  readonly leases: readonly LeaseRow[];
}

interface SpecifiedRow extends UsageRow {
  readonly record: SettledRecord;
  readonly tokenBudget: BudgetId | null;
}

/** All rows were settled in one month: this one. */
export function createSpecifiedBooks() {
  const accounts = new Set<string>();
  const keys = new Set<string>();
  const usage = new Map<string, SpecifiedRow>();
  const counts = new Map<string, number>();
  const budgets = new Map<BudgetId, BudgetRow>();
  const leases = new Map<LeaseId, LeaseRow>();
  const ledger = new Map<string, bigint>();
  const months = new Map<string, readonly bigint[]>();

  function makeMonths(record: SettledRecord): void {
    for (const { budgetId, kind } of monthScopes(record, record.admittedAtMs)) {
      const isKnown = accounts.has(record.account) && (kind === "account_month" || keys.has(record.key));
      if (isKnown && !budgets.has(budgetId)) budgets.set(budgetId, { budgetId, limit: null, spent: 0n, leased: 0n });
    }
  }

  function newRow(record: SettledRecord): SpecifiedRow {
    const onLeases = record.leaseIds.map((id) => leases.get(id)?.budgetId);
    return {
      ...record,
      record,
      tokenBudget: onLeases.find((id) => id?.startsWith("jwt/")) ?? null,
      charge: 0n as UsageRow["charge"],
      isVoided: false,
      isNew: true,
      deliveredTokens: undefined,
    };
  }

  function addEntry(of: Posting, book: string, kind: string, note: string | undefined, amount: bigint): void {
    const who = [of.requestId, of.attempt, of.account, of.key, of.model, of.priceVersion, of.discountId ?? ""];
    const key = [...who, book, kind, note ?? ""].join("|");
    const sum = (ledger.get(key) ?? 0n) + amount;
    if (sum === 0n) ledger.delete(key);
    else ledger.set(key, sum);
  }

  function addToMonth({ account, key, model, priceVersion, discountId }: SettledRecord, sums: readonly bigint[]): void {
    const name = [account, key, model, priceVersion, discountId ?? ""].join("|");
    const before = months.get(name);
    months.set(
      name,
      sums.map((sum, i) => sum + (before?.[i] ?? 0n)),
    );
  }

  function write(of: Posting): void {
    const kind = of.isCorrection ? "correction" : "capture";
    addEntry(of, "customer_available", kind, undefined, -of.charge);
    addEntry(of, "customer_spent", kind, undefined, of.charge);
    addEntry(of, "platform_revenue", "loss", of.lossReason, -of.loss);
    addEntry(of, "platform_loss", "loss", of.lossReason, of.loss);
    const { record } = usage.get(recordKey(of)) as SpecifiedRow;
    if (of.charge !== 0n) addToMonth(record, [1n, of.charge, 0n, ...noUnits]);
  }

  return {
    /** More accounts with their money. */
    seed(more: Seed): void {
      for (const account of more.accounts) accounts.add(account);
      for (const key of more.keys) keys.add(key);
      for (const budget of more.budgets) budgets.set(budget.budgetId, budget);
      for (const lease of more.leases) leases.set(lease.leaseId, lease);
    },

    settle(facts: NewFacts): Settled {
      for (const record of facts.records) makeMonths(record);
      for (const { requestId, attempt, outputTokens } of facts.counts) {
        const key = recordKey({ requestId, attempt });
        if (!counts.has(key)) counts.set(key, outputTokens);
      }
      const fresh = facts.records.filter((record) => !usage.has(recordKey(record)));
      // Requests in the order of their first new record, then the others by name.
      const requests = new Set<string>(fresh.map(({ requestId }) => requestId));
      for (const id of [...facts.records, ...facts.counts].map(({ requestId }) => requestId as string).toSorted())
        requests.add(id);
      const known = [...usage.values()].filter(({ requestId }) => requests.has(requestId));
      const rows = [...requests].flatMap((id) =>
        [...known, ...fresh.map(newRow)].filter(({ requestId }) => requestId === id),
      );
      const postings = post({
        rows: rows.map((row) => ({ ...row, deliveredTokens: counts.get(recordKey(row)) })),
        budgets: [...budgets.values()],
        leases: [...leases.values()],
      });
      for (const row of rows) usage.set(recordKey(row), { ...row, isNew: false });
      for (const { requestId, attempt, charge, isVoided } of postings.rows) {
        const key = recordKey({ requestId, attempt });
        const row = usage.get(key) as SpecifiedRow;
        const isNew = fresh.includes(row.record);
        const flip = isNew ? Number(!isVoided) : Number(row.isVoided) - Number(isVoided);
        if (flip !== 0)
          addToMonth(row.record, [0n, 0n, BigInt(flip), ...unitsOf(row.record).map((n) => n * BigInt(flip))]);
        usage.set(key, { ...row, charge, isVoided });
      }
      for (const entry of postings.entries) write(entry);
      for (const { budgetId, spent, leased } of postings.budgets) {
        const row = budgets.get(budgetId) as BudgetRow;
        budgets.set(budgetId, { ...row, spent: row.spent + spent, leased: row.leased + leased });
      }
      for (const { leaseId, settled } of postings.leases) {
        const row = leases.get(leaseId) as LeaseRow;
        leases.set(leaseId, { ...row, settled: row.settled + settled });
      }
      return {
        fresh: new Set(fresh.map(({ requestId, attempt }) => recordKey({ requestId, attempt }))),
        late: postings.late,
        losses: postings.entries.flatMap(({ loss, lossReason }) =>
          lossReason ? { reason: lossReason, amount: loss } : [],
        ),
      };
    },

    /** As `booksOf` reads them. */
    books: () => ({
      usage: sorted(
        [...usage.values()].map((row) => [
          recordKey(row),
          columnsOf(row.record, { charge: row.charge, isVoided: row.isVoided, tokenBudget: row.tokenBudget }),
        ]),
      ),
      ledger: sorted([...ledger]),
      budgets: sorted([...budgets.values()].map((b) => [b.budgetId, [b.limit, b.spent, b.leased]])),
      leases: sorted([...leases.values()].map((l) => [l.leaseId, [l.granted, l.settled, l.isOpen]])),
      months: sorted([...months].filter(([, sums]) => sums.some((sum) => sum !== 0n))),
    }),
  };
}

/** Everything that money consists of, except what time and chance set. */
export async function booksOf(world: World) {
  const read = async (text: string) => (await world.pool.query({ text, rowMode: "array" })).rows;
  const { rows: usage } = await world.pool.query("select * from usage");
  return {
    usage: sorted(
      usage.map(({ settled_at: _, ...row }) => [recordKey({ requestId: row.request_id, attempt: row.attempt }), row]),
    ),
    ledger: sorted(
      await read(
        `select concat_ws('|', request_id, attempt, account_id, key_id, model, price_version, coalesce(discount_id, ''), book, kind,
           coalesce(note, '')), sum(amount)::bigint
         from ledger_entry group by 1 having sum(amount) <> 0`,
      ),
    ),
    budgets: sorted(await read("select budget_id, array[lim, spent, leased] from budget")).map(([id, sums]) => [
      id,
      (sums as readonly (string | null)[]).map((sum) => (sum === null ? null : BigInt(sum))),
    ]),
    leases: sorted(
      (await read("select lease_id, granted, settled, closed_at is null from lease")).map(([id, ...row]) => [id, row]),
    ),
    months: sorted(
      (
        await read(
          `select concat_ws('|', account_id, key_id, model, price_version, discount_id), entries::bigint, cost::bigint,
             records::bigint, tokens::bigint, gpu_ms::bigint, characters::bigint, audio_ms::bigint, images::bigint,
             image_milli::bigint from usage_month
           where (entries, cost, records, tokens, gpu_ms, characters, audio_ms, images, image_milli) <> (0, 0, 0, 0, 0, 0, 0, 0, 0)`,
        )
      ).map(([id, ...row]) => [id, row]),
    ),
  };
}

/** Columns of a row of usage as pg reads them, except the time of settlement. */
export function columnsOf(
  record: SettledRecord,
  posted: Pick<UsageValues, "charge" | "isVoided" | "tokenBudget">,
): Record<string, unknown> {
  const { units, rates } = record;
  const values: Partial<Record<string, unknown>> = {
    ...record,
    ...posted,
    ...units,
    inputRate: rates.input,
    cachedInputRate: rates.cachedInput,
    outputRate: rates.output,
    characterRate: units && rates.units?.characters,
    audioRate: units && rates.units?.audio,
    imageRate: units && rates.units?.images,
    imageUnit: units && rates.units?.imageUnit,
  };
  return Object.fromEntries(
    usageFieldList.map(({ name, column, type }) => {
      const value = values[name] ?? (type === "amount" || type === "count" ? 0n : null);
      return [column, type === "count" ? BigInt(value as number) : type === "time" ? new Date(value as number) : value];
    }),
  );
}

const noUnits = [0n, 0n, 0n, 0n, 0n, 0n];

/** Tokens, milliseconds of GPUs, characters, milliseconds of audio, images, thousandths of priced images. */
function unitsOf({ inputTokens, outputTokens, gpuMs, units, rates }: SettledRecord): bigint[] {
  const { characters = 0, audioMs = 0, images = 0, imagePixelSteps = 0 } = units ?? {};
  const imageUnit = rates.units?.imageUnit ?? 0n;
  const isScaled = imageUnit > 0n && imagePixelSteps > 0;
  const milli = isScaled ? (BigInt(imagePixelSteps) * 1000n) / imageUnit : BigInt(images) * 1000n;
  return [...[inputTokens + outputTokens, gpuMs, characters, audioMs, images].map(BigInt), milli];
}

const sorted = (rows: readonly (readonly unknown[])[]) =>
  rows.toSorted(([a], [b]) => (String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0));
