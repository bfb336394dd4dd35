// A migrated database with accounts, and usage records as agents write them. One cluster per test file, one database per test.
import { randomBytes } from "node:crypto";
import { pino } from "pino";
import { Registry } from "prom-client";
import { onTestFinished } from "vitest";
import { noLimits } from "../../../control-plane/accounts/caller.ts";
import { createAccounts } from "../../../control-plane/accounts/create-account.ts";
import type { AccountSecrets } from "../../../control-plane/accounts/envelope.ts";
import type { Clock } from "../../../control-plane/billing/clock.ts";
import type { HoldRequest } from "../../../control-plane/billing/hold.ts";
import { type BudgetsDeps, createBudgets, type RunningBudgets } from "../../../control-plane/billing/leases.ts";
import { createBillingMetrics } from "../../../control-plane/billing/metrics.ts";
import { createSettlement } from "../../../control-plane/billing/settle.ts";
import { createAccountStore } from "../../../control-plane/store/accounts-store.ts";
import { createBillingStore } from "../../../control-plane/store/billing-store.ts";
import { openDatabase } from "../../../control-plane/store/database.ts";
import { createInvoiceStore } from "../../../control-plane/store/invoice-store.ts";
import { createLeaseStore } from "../../../control-plane/store/lease-store.ts";
import { createSettlementStore } from "../../../control-plane/store/settlement-store.ts";
import { createTokenStore } from "../../../control-plane/store/tokens-store.ts";
import { createUnrecordedStore } from "../../../control-plane/store/unrecorded-store.ts";
import { createUsageStore } from "../../../control-plane/store/usage-store.ts";
import { type AccountId, type KeyId, type LeaseId, type ReplicaId, randomId } from "../../../proto/ids.ts";
import { nano } from "../../../proto/money.ts";
import type { SpooledRecord } from "../../../proto/usage-record.ts";
import type { TestPostgres } from "../../fakes/postgres.ts";

export const log = pino({ level: process.env["TEST_LOG"] ?? "silent" });
export const patience = { timeout: 30_000, interval: 25 };

/** USD 1 per million tokens, in and out: one token costs 1000 nano-USD. */
export const tokenPrice = 1_000n;

export type World = Awaited<ReturnType<typeof openWorld>>;

export async function openWorld(postgres: TestPostgres) {
  const url = await postgres.migratedDatabase();
  const { db, pool, close } = openDatabase(url, { maxConnections: 20, log });
  const registry = new Registry();
  const metrics = createBillingMetrics(registry);
  const secrets: AccountSecrets = { keks: [{ version: 1, bytes: randomBytes(32) }], pepper: randomBytes(32) };
  const accountStore = createAccountStore(db);
  const accounts = createAccounts({ store: accountStore, secrets });
  const leaseStore = createLeaseStore(db);
  const settlementStore = createSettlementStore(db);
  const unrecorded = createUnrecordedStore(db);
  const settlement = createSettlement({
    // One after the other: a test that settles step by step must not wait for company.
    gatherMs: 0,
    store: settlementStore,
    quarantine: unrecorded,
    log,
    metrics,
    lostWaitMs: 500,
  });
  let names = 0;
  onTestFinished(close);

  return {
    url,
    db,
    pool,
    registry,
    metrics,
    secrets,
    accountStore,
    tokenStore: createTokenStore(db),
    accounts,
    leaseStore,
    settlementStore,
    unrecorded,
    settlement,
    usageStore: createUsageStore(db),
    invoiceStore: createInvoiceStore(db),
    billingStore: createBillingStore(db),

    async account(credit: bigint): Promise<AccountId> {
      names += 1;
      const wish = { email: `a${names}@example.com`, displayName: `a${names}`, isAdmin: false };
      return (await accounts.createAccount({ ...wish, creditNanoUsd: nano(credit) })).account;
    },

    /** Another control plane on the same database. */
    async replica(options: Partial<BudgetsDeps> = {}): Promise<RunningBudgets & { readonly id: ReplicaId }> {
      const replica = await leaseStore.registerReplica(randomId<"replica">(12));
      const budgets = createBudgets({
        store: leaseStore,
        replica,
        log,
        metrics: createBillingMetrics(new Registry()),
        openLeaseIds: async () => new Set(),
        ...options,
      });
      return { ...budgets, id: replica.id };
    },

    /** The key every account is made with. */
    async keyOf(account: AccountId): Promise<KeyId> {
      const row = await db
        .selectFrom("api_key")
        .select("token_id")
        .where("account_id", "=", account)
        .executeTakeFirst();
      return row?.token_id as KeyId;
    },

    async budgetRow(budgetId: string) {
      const row = await db.selectFrom("budget").selectAll().where("budget_id", "=", budgetId).executeTakeFirst();
      return row && { limit: row.lim, spent: row.spent, leased: row.leased };
    },

    async budget(account: AccountId) {
      const row = await db
        .selectFrom("budget")
        .select(["lim", "spent", "leased"])
        .where("budget_id", "=", `account/${account}`)
        .executeTakeFirstOrThrow();
      return { limit: row.lim, spent: row.spent, leased: row.leased };
    },

    openLeases: () => db.selectFrom("lease").selectAll().where("closed_at", "is", null).execute(),
  };
}

let spoolIds = 0;

export function usageRecord(
  account: AccountId,
  tokens: { readonly input: number; readonly output: number },
  more: Partial<SpooledRecord> = {},
): SpooledRecord {
  spoolIds += 1;
  return {
    spoolId: String(spoolIds),
    requestId: randomId(24),
    attempt: 1,
    admittedAtMs: String(Date.now()),
    endedAtMs: String(Date.now()),
    instanceId: "instance",
    deployId: "deployment",
    nodeEpoch: "1",
    accountId: account,
    keyId: "key" as KeyId,
    replicaId: "replica",
    model: "acme/model",
    leaseIds: [] as LeaseId[],
    holdNanoUsd: "1000000000",
    inputTokens: String(tokens.input),
    cachedInputTokens: "0",
    outputTokens: String(tokens.output),
    reasoningTokens: "0",
    source: "engine",
    endReason: "stop",
    priceVersion: "1",
    discountId: "",
    inputRate: "1000000000",
    cachedInputRate: "1000000000",
    outputRate: "1000000000",
    queueMs: 0,
    firstByteMs: 1,
    totalMs: 2,
    readyMs: 0,
    characters: "0",
    audioMs: "0",
    images: "0",
    imagePixelSteps: "0",
    items: "0",
    characterRate: "",
    audioRate: "",
    imageRate: "",
    imageUnit: "0",
    ...more,
  };
}

export const wholeBooks = {
  imbalance: 0n,
  unbalancedTransactions: [],
  wrongSpent: [],
  wrongLeased: [],
  aboveLimit: [],
  wrongMonths: [],
  doubleCaptures: [],
};

/** A clock that moves when told; leases in PostgreSQL run on the server's own. */
export function handClock(): Clock & { pass(ms: number): void } {
  let at = 1_000_000;
  const start = Date.now();
  return {
    monotonicMs: () => at,
    unixMs: () => start + at,
    pass(ms) {
      at += ms;
    },
  };
}

export const ask = (account: AccountId, full: bigint, floor = full): HoldRequest => ({
  account,
  key: "key" as KeyId,
  spending: noLimits,
  requestId: randomId<"request">(24),
  admittedAtMs: Date.now(),
  floor: nano(floor),
  full: nano(full),
});
