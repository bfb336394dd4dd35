// Requests and GPU time as money: slices, holds, records and reports with their stores.

import type { Logger } from "pino";
import type { Registry } from "prom-client";
import { type FaultPoint, withPoints } from "../../proto/fault-point.ts";
import type { HostId } from "../../proto/ids.ts";
import { randomId } from "../../proto/ids.ts";
import type { Tracing } from "../../proto/tracing.ts";
import type { SpooledRecord } from "../../proto/usage-record.ts";
import { createDeliveredCounts } from "../billing/delivered-counts.ts";
import { createDiscounts } from "../billing/discounts.ts";
import { createEndUsers, type EndUsers } from "../billing/end-users.ts";
import { createGpuHolds } from "../billing/gpu-holds.ts";
import { type GpuMinute, readGpuMinute } from "../billing/gpu-minute.ts";
import { createGpuTime } from "../billing/gpu-time.ts";
import { createBudgets } from "../billing/leases.ts";
import { createLostAttempts } from "../billing/lost-attempts.ts";
import type { BillingMetrics } from "../billing/metrics.ts";
import { createBillingMetrics } from "../billing/metrics.ts";
import { createPriceBook } from "../billing/price-book.ts";
import type { Quarantine } from "../billing/quarantine.ts";
import { createQuarantine } from "../billing/quarantine.ts";
import { createQuarantineDesk } from "../billing/quarantine-desk.ts";
import type { TicketSeals } from "../billing/record.ts";
import { createRejections } from "../billing/rejections.ts";
import { createReportSlots } from "../billing/report-slots.ts";
import { createRequestLabels } from "../billing/request-labels.ts";
import { createRequestLog, type RequestLog } from "../billing/request-log.ts";
import { monthScopes } from "../billing/scopes.ts";
import type { Settlement } from "../billing/settle.ts";
import { createSettlement } from "../billing/settle.ts";
import { scaledTiming } from "../billing/slices.ts";
import type { SettlementStore } from "../billing/store.ts";
import { createBillingUpkeep } from "../billing/upkeep.ts";
import { createUsageDays, type UsageDays } from "../billing/usage-days.ts";
import { createUsageQueries } from "../billing/usage-queries.ts";
import type { DeploymentStatsStore } from "../deployments/store.ts";
import type { OpenDatabase } from "../store/core/database.ts";
import { createDeploymentStatsStore } from "../store/deployments/deployment-stats-store.ts";
import { createEndUserStore } from "../store/money/end-user-store.ts";
import { createGpuTimeStore } from "../store/money/gpu-time-store.ts";
import { createLeaseStore } from "../store/money/lease-store.ts";
import { createPriceStore } from "../store/money/price-store.ts";
import { createQuarantineStore } from "../store/money/quarantine-store.ts";
import { createRejectionStore } from "../store/money/rejection-store.ts";
import { createRequestLogStore } from "../store/money/request-log-store.ts";
import { createSettlementStore } from "../store/money/settlement-store.ts";
import { createUnrecordedStore } from "../store/money/unrecorded-store.ts";
import { createUsageDayStore } from "../store/money/usage-day-store.ts";
import { createUsageStore } from "../store/money/usage-store.ts";

export type Money = Awaited<ReturnType<typeof createMoney>>;

/** Registers this replica under a new epoch. Throws when the database is unavailable. */
export async function createMoney(deps: {
  readonly db: OpenDatabase["db"];
  /** Where reports are read; undefined: in `db`. */
  readonly reportDb?: OpenDatabase["db"];
  /** Verify that a usage record belongs to a request that this installation sent to the host. */
  readonly seals: TicketSeals;
  readonly registry: Registry;
  /** Changes of limits and account status; held slices are recalled at once. */
  readonly changes: { on(topic: string, handler: (subject: string) => void): void };
  readonly openLeaseIds: () => Promise<ReadonlySet<string> | undefined>;
  readonly voidedLeases: () => Promise<ReadonlyMap<string, string>>;
  /** Silence after which a host counts as lost. */
  readonly hostLostMs: number;
  /** 1; less in tests shortens slices by this factor. */
  readonly clockScale: number;
  /** Maximum database connections of this process. */
  readonly connections: number;
  /** Undefined: traces are off. */
  readonly tracing: Tracing | undefined;
  readonly fault: FaultPoint<"after_grant" | "before_settle" | "after_settle">;
  readonly log: Logger;
}) {
  const { db, log } = deps;
  const reportDb = deps.reportDb ?? db;
  const metrics = createBillingMetrics(deps.registry);
  const leaseStore = withPoints(createLeaseStore(db), "grant", deps.fault, { after: "after_grant" });
  const settlementStore = withPoints(createSettlementStore(db, monthScopes), "settle", deps.fault, {
    before: "before_settle",
    after: "after_settle",
  });
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
  const quarantineStore = createQuarantineStore(db);
  const quarantine = createQuarantine({ store: quarantineStore, metrics, log });
  const settlement = createSettlement({
    store: settlementStore,
    seals: deps.seals,
    quarantine,
    log,
    metrics,
    tracing: deps.tracing,
  });
  const reports = createReportSlots(deps);
  const stats = createDeploymentStatsStore(reportDb);
  const usageDays = createUsageDays({ store: createUsageDayStore(db, reportDb) });
  const endUsers = createEndUsers({ store: createEndUserStore(db, reportDb) });
  const rejections = createRejections({ store: createRejectionStore(db), log });
  const requestLog = createRequestLog({ store: createRequestLogStore(reportDb) });
  return {
    replica,
    reports,
    /** Billing's part of the request flow. */
    spine: { budgets, discounts, delivered, labels, replicaId: replica.id, sealKey: deps.seals.newest },
    usageQuarantine: createQuarantineDesk({ store: quarantineStore, settlement }),
    prices,
    discounts,
    gpu: createGpuBilling({ db, settlement, settlementStore, quarantine, metrics, log }),
    usage: createUsageQueries({ store: createUsageStore(reportDb) }),
    usageDays: {
      ...usageDays,
      read: (account, ...asked) => reports.run(account, () => usageDays.read(account, ...asked)),
    } satisfies UsageDays,
    endUsers: {
      ...endUsers,
      list: (account, query) => reports.run(account, () => endUsers.list(account, query)),
    } satisfies EndUsers,
    requestLog: {
      ...requestLog,
      list: (account, ...asked) => reports.run(account, () => requestLog.list(account, ...asked)),
      rejections: (caller, ...asked) => reports.run(caller, () => requestLog.rejections(caller, ...asked)),
      failures: (caller, ...asked) => reports.run(caller, () => requestLog.failures(caller, ...asked)),
    } satisfies RequestLog,
    rejections,
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
      rejections.start();
    },
    /** Stops in the order in which later parts depend on earlier ones. */
    async stop() {
      // First: it reports delivered output of requests whose record is not durable yet.
      await budgets.stop();
      await delivered.stop();
      await lostAttempts.stop();
      await labels.stop();
      await rejections.stop();
      await upkeep.stop();
    },
  };
}

/** GPU time: minutes held in advance, and minutes that agents metered. */
export function createGpuBilling(deps: {
  readonly db: OpenDatabase["db"];
  readonly settlement: Settlement;
  readonly settlementStore: SettlementStore;
  readonly quarantine: Quarantine;
  readonly metrics: BillingMetrics;
  readonly log: Logger;
}) {
  const { log, metrics } = deps;
  const store = createGpuTimeStore(deps.db);
  const time = createGpuTime({ store, settlement: deps.settlementStore, quarantine: deps.quarantine, metrics, log });
  return {
    holds: createGpuHolds({ store, log }),
    /** Settles requests and minutes of GPU time, which arrive in one stream; each kind is acknowledged separately. */
    async settle(records: readonly SpooledRecord[], nodeEpoch: string, host: HostId): Promise<string[]> {
      const minutes: GpuMinute[] = [];
      const ofMinutes: string[] = [];
      const requests = records.filter((wire) => {
        const minute = readGpuMinute(wire);
        if (!minute) return true;
        minutes.push(minute);
        ofMinutes.push(String(wire.spoolId));
        return false;
      });
      const [durable, areMinutesDurable] = await Promise.all([
        deps.settlement.settle(requests, nodeEpoch, host),
        time.settle(minutes, host),
      ]);
      return areMinutesDurable ? [...durable, ...ofMinutes] : durable;
    },
  };
}
