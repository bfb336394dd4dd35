import { pino } from "pino";
import { Registry } from "prom-client";
import { expect, it } from "vitest";
import type { HoldRequest } from "../../../../control-plane/billing/hold.ts";
import { createBudgets } from "../../../../control-plane/billing/leases.ts";
import { createBillingMetrics } from "../../../../control-plane/billing/metrics.ts";
import type { LeaseStore } from "../../../../control-plane/billing/store.ts";
import { DatabaseUnavailable } from "../../../../control-plane/service-error.ts";
import type { AccountId, BudgetId, KeyId, ReplicaId, RequestId } from "../../../../proto/ids.ts";
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
    expect(answer).toEqual({ status: "rejected", reason: expect.any(DatabaseUnavailable) });
});

it.each([
  ["the account's funds", [0n, 5n, undefined], /left of the account's funds/],
  ["the key's month", [9n, 0n, 3n], /API key's monthly limit/],
  ["the token's own limit", [9n, 7n, 0n], /scoped token's spending limit/],
])("says that %s are used up, also while it refuses without asking again", async (_what, rooms, sentence) => {
  let grants = 0;
  const store = {
    giveBack: async () => [],
    async grant(
      _replica: unknown,
      scopes: readonly unknown[],
      _ttlMs: number,
      size: Parameters<LeaseStore["grant"]>[3],
    ) {
      grants += 1;
      size(scopes.map((_, i) => ({ free: 0n, available: rooms[i] })));
      return { kind: "granted", amounts: scopes.map(() => 0n) };
    },
  } as unknown as LeaseStore;
  const budgets = createBudgets({
    store,
    replica: { id: "r" as ReplicaId, epoch: 1n },
    log: pino({ level: "silent" }),
    metrics: createBillingMetrics(new Registry()),
    openLeaseIds: async () => new Set(),
    clock: { monotonicMs: () => 0, unixMs: () => 0 },
  });
  const token = { budget: "jwt/1" as BudgetId, limit: 3n };
  const request = { ...ask("first"), spending: { hasAccountLimit: false, hasKeyLimit: true, token } };
  await expect(budgets.hold(request)).rejects.toThrow(sentence);
  expect(() => budgets.hold(request)).toThrow(sentence);
  expect(grants).toBe(1);
});
