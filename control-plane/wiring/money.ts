// Billing put together.
import type { Logger } from "pino";
import type { Registry } from "prom-client";
import { randomId } from "../../proto/ids.ts";
import { createDeliveredCounts } from "../billing/delivered-counts.ts";
import { createDiscounts } from "../billing/discounts.ts";
import { createBudgets } from "../billing/leases.ts";
import { createLostAttempts } from "../billing/lost-attempts.ts";
import { createBillingMetrics } from "../billing/metrics.ts";
import { createPriceBook } from "../billing/price-book.ts";
import { createReportSlots } from "../billing/report-slots.ts";
import { createRequestLabels } from "../billing/request-labels.ts";
import { createRequestLog, type RequestLog } from "../billing/request-log.ts";
import { createSettlement } from "../billing/settle.ts";
import { scaledTiming } from "../billing/slice.ts";
import { createBillingUpkeep } from "../billing/upkeep.ts";
import { createUsageDays, type UsageDays } from "../billing/usage-days.ts";
import { createUsageQueries } from "../billing/usage-queries.ts";
import type { DeploymentStatsStore } from "../deployments/store.ts";
import type { OpenDatabase } from "../store/database.ts";
import { createDeploymentStatsStore } from "../store/deployment-stats-store.ts";
import { createLeaseStore } from "../store/lease-store.ts";
import { createPriceStore } from "../store/price-store.ts";
import { createRequestLogStore } from "../store/request-log-store.ts";
import { createSettlementStore } from "../store/settlement-store.ts";
import { createUnrecordedStore } from "../store/unrecorded-store.ts";
import { createUsageDayStore } from "../store/usage-day-store.ts";
import { createUsageStore } from "../store/usage-store.ts";
import { createGpuBilling } from "./gpu-time.ts";

export type Money = Awaited<ReturnType<typeof createMoney>>;

/** Registers this replica under a new epoch. Throws when the database is away. */
export async function createMoney(deps: {
  readonly db: OpenDatabase["db"];
  readonly registry: Registry;
  /** Limits and standing of accounts: held slices follow them at once. */
  readonly changes: { on(topic: string, handler: (subject: string) => void): void };
  readonly openLeaseIds: () => Promise<ReadonlySet<string> | undefined>;
  readonly voidedLeases: () => Promise<ReadonlyMap<string, string>>;
  /** Silence after which a host counts as lost. */
  readonly hostLostMs: number;
  /** 1, or less in tests: slices live that much shorter. */
  readonly clockScale: number;
  /** To the database, in all. */
  readonly connections: number;
  readonly log: Logger;
}) {
  const { db, log } = deps;
  const metrics = createBillingMetrics(deps.registry);
  const leaseStore = createLeaseStore(db);
  const settlementStore = createSettlementStore(db);
  const unrecorded = createUnrecordedStore(db);
  const usageStore = createUsageStore(db);
  const replica = await leaseStore.registerReplica(randomId<"replica">(16));
  const budgets = createBudgets({
    store: leaseStore,
    replica,
    log,
    metrics,
    openLeaseIds: deps.openLeaseIds,
    voidedLeases: deps.voidedLeases,
    timing: scaledTiming(deps.clockScale),
  });
  for (const topic of ["account", "limit"]) deps.changes.on(topic, budgets.recall);
  const priceStore = createPriceStore(db);
  const prices = createPriceBook({ store: priceStore });
  const discounts = createDiscounts({ store: priceStore });
  const labels = createRequestLabels({ store: usageStore, log });
  const delivered = createDeliveredCounts({ store: settlementStore, counts: unrecorded, log, metrics });
  const lostAttempts = createLostAttempts({
    store: unrecorded,
    settlement: settlementStore,
    log,
    metrics,
    silentMs: deps.hostLostMs,
  });
  const upkeep = createBillingUpkeep({ store: settlementStore, log, metrics });
  const settlement = createSettlement({ store: settlementStore, quarantine: unrecorded, log, metrics });
  const reports = createReportSlots(deps);
  const stats = createDeploymentStatsStore(db);
  const usageDays = createUsageDays({ store: createUsageDayStore(db) });
  const requestLog = createRequestLog({ store: createRequestLogStore(db) });
  return {
    replica,
    budgets,
    labels,
    delivered,
    prices,
    discounts,
    gpu: createGpuBilling({ db, settlement, settlementStore, metrics, log }),
    usage: createUsageQueries({ store: usageStore }),
    usageDays: {
      read: (account, ...asked) => reports.run(account, () => usageDays.read(account, ...asked)),
    } satisfies UsageDays,
    requestLog: {
      ...requestLog,
      list: (account, ...asked) => reports.run(account, () => requestLog.list(account, ...asked)),
    } satisfies RequestLog,
    stats: {
      requests: (account, ...asked) => reports.run(account, () => stats.requests(account, ...asked)),
      use: (id, account, ...asked) => reports.run(account, () => stats.use(id, account, ...asked)),
      series: (id, account, ...asked) => reports.run(account, () => stats.series(id, account, ...asked)),
    } satisfies DeploymentStatsStore,
    async start() {
      await upkeep.start();
      budgets.start();
      labels.start();
      lostAttempts.start();
    },
    /** In the order in which money flows: counts and labels first, slices back last. */
    async stop() {
      await delivered.stop();
      await lostAttempts.stop();
      await labels.stop();
      await upkeep.stop();
      await budgets.stop();
    },
  };
}
