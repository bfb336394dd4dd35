// A migrated database with accounts, and usage records as agents write them. One database per test.
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
import { createQuarantine } from "../../../control-plane/billing/quarantine.ts";
import { monthScopes } from "../../../control-plane/billing/scopes.ts";
import { createSettlement, type SettlementDeps } from "../../../control-plane/billing/settle.ts";
import { createAccountStore } from "../../../control-plane/store/accounts/accounts-store.ts";
import { createTokenStore } from "../../../control-plane/store/accounts/tokens-store.ts";
import { openDatabase } from "../../../control-plane/store/core/database.ts";
import { createBillingStore } from "../../../control-plane/store/money/billing-store.ts";
import { createInvoiceStore } from "../../../control-plane/store/money/invoice-store.ts";
import { createLeaseStore } from "../../../control-plane/store/money/lease-store.ts";
import { createQuarantineStore } from "../../../control-plane/store/money/quarantine-store.ts";
import { createSettlementStore } from "../../../control-plane/store/money/settlement-store.ts";
import { createUnrecordedStore } from "../../../control-plane/store/money/unrecorded-store.ts";
import { createUsageStore } from "../../../control-plane/store/money/usage-store.ts";
import {
  type AccountId,
  accountBudget,
  type BudgetId,
  type KeyId,
  type ReplicaId,
  randomId,
} from "../../../proto/ids.ts";
import { nano } from "../../../proto/money.ts";
import type { ServiceTier } from "../../../proto/service-tier.ts";
import type { TicketProvider } from "../../../proto/ticket.ts";
import type { SpooledRecord } from "../../../proto/usage-record.ts";
import { ticketFor } from "../../fakes/data-path.ts";
import type { TestDatabases } from "../../fakes/postgres.ts";
import { recordOf, testHost, testSeals } from "../../fakes/seals.ts";

export const log = pino({ level: process.env["TEST_LOG"] ?? "silent" });
export const patience = { timeout: 30_000, interval: 25 };

/** USD 1 per million tokens, in and out: one token costs 1000 nano-USD. */
export const tokenPrice = 1_000n;

export type World = Awaited<ReturnType<typeof openWorld>>;

export async function openWorld(postgres: TestDatabases) {
  const url = await postgres.migratedDatabase();
  const { db, pool, close } = openDatabase(url, { maxConnections: 20, log });
  const registry = new Registry();
  const metrics = createBillingMetrics(registry);
  const secrets: AccountSecrets = { keks: [{ version: 1, bytes: randomBytes(32) }], pepper: randomBytes(32) };
  const accountStore = createAccountStore(db);
  const accounts = createAccounts({ store: accountStore, secrets });
  const leaseStore = createLeaseStore(db);
  const settlementStore = createSettlementStore(db, monthScopes);
  const unrecorded = createUnrecordedStore(db);
  const quarantineStore = createQuarantineStore(db);
  const quarantine = createQuarantine({ store: quarantineStore, metrics, log });
  /** The settlement of one more control plane. */
  const openSettlement = (options: Partial<SettlementDeps> = {}) => {
    const settlement = createSettlement({
      // One after the other: a test that settles step by step must not wait for company.
      gatherMs: 0,
      store: settlementStore,
      seals: testSeals,
      quarantine,
      log,
      metrics,
      lostWaitMs: 500,
      ...options,
    });
    return {
      ...settlement,
      settle: (records: readonly SpooledRecord[], nodeEpoch: string, host = testHost) =>
        settlement.settle(records, nodeEpoch, host),
    };
  };
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
    quarantineStore,
    quarantine,
    openSettlement,
    settlement: openSettlement(),
    usageStore: createUsageStore(db),
    invoiceStore: createInvoiceStore(db),
    billingStore: createBillingStore(db),

    async account(credit: bigint): Promise<AccountId> {
      names += 1;
      const request = { email: `a${names}@example.com`, displayName: `a${names}`, isAdmin: false };
      return (await accounts.createAccount({ ...request, creditNanoUsd: nano(credit) })).account;
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
      const row = await db.selectFrom("apiKey").select("tokenId").where("accountId", "=", account).executeTakeFirst();
      return row?.tokenId as KeyId;
    },

    async budgetRow(budgetId: BudgetId) {
      const row = await db.selectFrom("budget").selectAll().where("budgetId", "=", budgetId).executeTakeFirst();
      return row && { limit: row.lim, spent: row.spent, leased: row.leased };
    },

    async budget(account: AccountId) {
      const row = await db
        .selectFrom("budget")
        .select(["lim", "spent", "leased"])
        .where("budgetId", "=", accountBudget(account))
        .executeTakeFirstOrThrow();
      return { limit: row.lim, spent: row.spent, leased: row.leased };
    },

    openLeases: () => db.selectFrom("lease").selectAll().where("closedAt", "is", null).execute(),
  };
}

/** What a test may say of a record beside its tokens: terms of the ticket, and what the agent adds. */
export interface RecordTerms extends Omit<Partial<SpooledRecord>, "ticket"> {
  readonly keyId?: string;
  readonly replicaId?: string;
  readonly model?: string;
  readonly leaseIds?: readonly string[];
  readonly holdNanoUsd?: string;
  readonly priceVersion?: string;
  readonly discountId?: string;
  readonly endUser?: string;
  readonly provider?: TicketProvider;
  readonly inputRate?: string;
  readonly cachedInputRate?: string;
  readonly outputRate?: string;
  readonly characterRate?: string;
  readonly audioRate?: string;
  readonly imageRate?: string;
  readonly imageUnit?: string;
  readonly tier?: ServiceTier;
}

/** A record as an agent sends it, of a request that was sealed for `testHost`. */
export function usageRecord(
  account: AccountId,
  tokens: { readonly input: number; readonly output: number },
  terms: RecordTerms = {},
): SpooledRecord {
  const { keyId, replicaId, model, leaseIds, holdNanoUsd, priceVersion, discountId, inputRate, ...more } = terms;
  const { cachedInputRate, outputRate, endUser, provider, tier, ...beside } = more;
  const { characterRate, audioRate, imageRate, imageUnit, admittedAtMs, instanceId, deployId, ...said } = beside;
  const hasUnits = characterRate !== undefined || audioRate !== undefined || imageRate !== undefined;
  const noUnits = { characters: 0, audioMs: 0, images: 0, imagePixelSteps: 0, items: 0 };
  const now = Date.now();
  const ticket = ticketFor({
    requestId: said.requestId ?? randomId(24),
    attempt: said.attempt ?? 1,
    hostId: testHost,
    admittedAtMs: Number(admittedAtMs ?? now),
    instanceId: instanceId ?? "instance",
    deployId: deployId ?? "deployment",
    account,
    keyId: keyId ?? "key",
    replicaId: replicaId ?? "replica",
    model: model ?? "acme/model",
    leaseIds: leaseIds ?? [],
    hold: holdNanoUsd ?? "1000000000",
    inputTokensBound: 1e9,
    inputTokensEstimate: tokens.input,
    maxTokens: 1e9,
    rates: [inputRate ?? "1000000000", cachedInputRate ?? "1000000000", outputRate ?? "1000000000"],
    priceVersion: Number(priceVersion ?? 1),
    ...(discountId ? { discountId } : {}),
    ...(endUser ? { endUser } : {}),
    ...(tier ? { tier } : {}),
    ...(provider ? { provider } : {}),
    ...(hasUnits
      ? {
          units: {
            asked: noUnits,
            rates: [characterRate ?? "0", audioRate ?? "0", imageRate ?? "0", imageUnit ?? "0"],
          },
        }
      : {}),
  });
  return recordOf(ticket, {
    endedAtMs: String(now),
    inputTokens: String(tokens.input),
    cachedInputTokens: "0",
    outputTokens: String(tokens.output),
    reasoningTokens: "0",
    ...said,
  });
}

export const wholeBooks = {
  imbalance: 0n,
  unbalancedTransactions: [],
  wrongSpent: [],
  wrongLeased: [],
  aboveLimit: [],
  wrongDays: [],
  wrongTokens: [],
  wrongEndUserMonths: [],
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
