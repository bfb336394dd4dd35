import pino from "pino";
import { Registry } from "prom-client";
import { expect, it } from "vitest";
import type { DeliveredCount } from "../../../../control-plane/billing/delivered.ts";
import { createDeliveredCounts } from "../../../../control-plane/billing/delivered-counts.ts";
import { createBillingMetrics } from "../../../../control-plane/billing/metrics.ts";
import type { SettlementStore } from "../../../../control-plane/billing/store.ts";
import { DatabaseUnavailable } from "../../../../control-plane/service-error.ts";

const countOf = (requestId: string) => ({ requestId, attempt: 1, outputTokens: 1 }) as DeliveredCount;

function openCounts() {
  let isDown = true;
  const written: string[] = [];
  const lines: string[] = [];
  const settle = (async ({ counts }) => {
    if (isDown) throw new DatabaseUnavailable("unreachable");
    written.push(...counts.map(({ requestId }) => requestId));
    return { fresh: new Set(), late: 0, losses: [] };
  }) as SettlementStore["settle"];
  const counts = createDeliveredCounts({
    store: { settle } as SettlementStore,
    counts: { keepLost: async () => {} },
    log: pino({ level: "error" }, { write: (line: string) => void lines.push(line) }),
    metrics: createBillingMetrics(new Registry()),
  });
  return { ...counts, written, lines, recover: () => (isDown = false) };
}

it("keeps and writes first the counts of broken streams when overdue ones fill the queue during an outage", async () => {
  const counts = openCounts();
  for (let i = 0; i < 12_000; i++) counts.report(countOf(`overdue-${i}`), "overdue");
  for (let i = 0; i < 300; i++) counts.report(countOf(`broken-${i}`), "broken");
  counts.recover();
  await counts.stop();
  expect(counts.written.slice(-10_300, -10_000)).toEqual(Array.from({ length: 300 }, (_, i) => `broken-${i}`));
  expect(counts.written).toHaveLength(10_300);
});

it("logs once, not once per count, that the queue is full", async () => {
  const counts = openCounts();
  for (let i = 0; i < 12_000; i++) counts.report(countOf(`overdue-${i}`), "overdue");
  for (let i = 0; i < 12_000; i++) counts.report(countOf(`broken-${i}`), "broken");
  expect(counts.lines.length).toBeGreaterThan(0);
  expect(counts.lines.length).toBeLessThanOrEqual(2);
  counts.recover();
  await counts.stop();
});
