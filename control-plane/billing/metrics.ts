import { Counter, Gauge, type Registry } from "prom-client";
import { nano, toUsd } from "../../proto/money.ts";
import type { Loss } from "./store.ts";

/** Their series begin at 0: Prometheus' `increase` does not count the first value of a series. */
const usageResults = [
  ...(["captured", "duplicate", "late", "orphan"] as const),
  ...(["usage_rejected", "quarantined", "quarantine_dropped"] as const),
];
type UsageResult = (typeof usageResults)[number];

export interface BillingMetrics {
  readonly usageEvents: { inc(labels: { readonly result: UsageResult }, count?: number): void };
  readonly leaseGrants: Counter<"result">;
  readonly leaseReturns: Counter<"why">;
  readonly holdsExpired: Counter;
  readonly gpuSecondsBilled: Counter<"gpu">;
  readonly platformLoss: Counter<"reason">;
  readonly released: Counter<"what">;
  readonly imbalance: Gauge;
  /** Holds of this replica; read from memory at each scrape. */
  watchHolds(read: () => HoldFigures): void;
  lost(losses: readonly Loss[]): void;
}

export interface HoldFigures {
  readonly holds: number;
  readonly holdAmount: bigint;
  readonly leases: number;
  readonly leased: bigint;
}

export function createBillingMetrics(registry: Registry): BillingMetrics {
  const registers = [registry];
  const platformLoss = new Counter({
    name: "stoker_platform_loss_nanousd_total",
    help: "Cost that no customer pays, in nano-USD",
    labelNames: ["reason"] as const,
    registers,
  });
  const usageEvents = new Counter({
    name: "stoker_usage_events_total",
    help: "Usage records by result of their settlement",
    labelNames: ["result"] as const,
    registers,
  });
  for (const result of usageResults) usageEvents.inc({ result }, 0);
  return {
    usageEvents,
    leaseGrants: new Counter({
      name: "stoker_lease_grants_total",
      help: "Requests for budget slices by outcome",
      labelNames: ["result"] as const,
      registers,
    }),
    leaseReturns: new Counter<"why">({
      name: "stoker_lease_returns_total",
      help: "Returned budget slices",
      labelNames: ["why"] as const satisfies readonly string[],
      registers,
    }),
    holdsExpired: new Counter({
      name: "stoker_holds_expired_total",
      help: "Ended requests whose usage record did not arrive before their lease expired",
      registers,
    }),
    gpuSecondsBilled: new Counter({
      name: "stoker_gpu_seconds_billed_total",
      help: "GPU seconds of dedicated deployments that were settled inside their hold, by GPU type",
      labelNames: ["gpu"] as const,
      registers,
    }),
    platformLoss,
    released: new Counter<"what">({
      name: "stoker_unrecorded_released_total",
      help: "Attempts and leases released in the customer's favour: no usage record arrived within 24 hours",
      labelNames: ["what"] as const satisfies readonly string[],
      registers,
    }),
    imbalance: new Gauge({
      name: "stoker_ledger_imbalance_nanousd",
      help: "Sum of unbalanced ledger transactions of the last minutes; must be 0",
      registers,
    }),
    watchHolds(read) {
      gauge(
        "stoker_holds_open",
        "Money holds of this replica, running or waiting for their record",
        () => read().holds,
      );
      gauge("stoker_holds_amount_usd", "Sum of these holds", () => toUsd(nano(read().holdAmount)));
      gauge("stoker_leases_open", "Budget slices this replica has", () => read().leases);
      gauge("stoker_leased_usd", "Unspent money in these slices", () => toUsd(nano(read().leased)));
    },
    lost(losses) {
      for (const { amount, reason } of losses) platformLoss.inc({ reason }, Number(amount));
    },
  };

  function gauge(name: string, help: string, value: () => number): void {
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(value());
      },
    });
  }
}
