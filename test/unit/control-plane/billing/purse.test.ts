import { pino } from "pino";
import { Registry } from "prom-client";
import { expect, it } from "vitest";
import { BudgetStoreAway, type HoldRequest } from "../../../../control-plane/billing/hold.ts";
import { createBudgets } from "../../../../control-plane/billing/leases.ts";
import { createBillingMetrics } from "../../../../control-plane/billing/metrics.ts";
import type { LeaseStore } from "../../../../control-plane/billing/store.ts";
import type { AccountId, KeyId, ReplicaId, RequestId } from "../../../../proto/ids.ts";
import { nano } from "../../../../proto/money.ts";

const spending = { hasAccountLimit: false, hasKeyLimit: false, token: null };
const ask = (id: string): HoldRequest => ({
  requestId: id as RequestId,
  admittedAtMs: 0,
  account: "a" as AccountId,
  key: "k" as KeyId,
  spending,
  floor: nano(1n),
  full: nano(2n),
});

it("answers requests that queued behind a grant which could not reach the database", async () => {
  const grants: PromiseWithResolvers<never>[] = [];
  const store: LeaseStore = {
    registerReplica: async (id) => ({ id, epoch: 1n }),
    touchReplica: async () => {},
    grant() {
      const grant = Promise.withResolvers<never>();
      grants.push(grant);
      return grant.promise;
    },
    sync: async () => ({ leases: [], recorded: new Map() }),
    giveBack: async () => [],
    expiredLeases: async () => [],
    closeExpired: async () => [],
  };
  const budgets = createBudgets({
    store,
    replica: { id: "r" as ReplicaId, epoch: 1n },
    log: pino({ level: "silent" }),
    metrics: createBillingMetrics(new Registry()),
    openLeaseIds: async () => new Set(),
  });
  const answers = [Promise.resolve(budgets.hold(ask("first")))];
  while (grants.length === 0) await Promise.resolve();
  answers.push(Promise.resolve(budgets.hold(ask("second"))), Promise.resolve(budgets.hold(ask("third"))));
  grants[0]?.reject(new Error("connection terminated"));
  for (const answer of await Promise.allSettled(answers))
    expect(answer).toEqual({ status: "rejected", reason: expect.any(BudgetStoreAway) });
});
