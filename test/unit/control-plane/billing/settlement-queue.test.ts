import pino from "pino";
import { Registry } from "prom-client";
import { describe, expect, it } from "vitest";
import { createBillingMetrics } from "../../../../control-plane/billing/metrics.ts";
import { recordKey, type SettledRecord } from "../../../../control-plane/billing/record.ts";
import { SettlementQueue, type SettleOutcome } from "../../../../control-plane/billing/settlement-queue.ts";
import type { SettlementStore } from "../../../../control-plane/billing/store.ts";
import { DatabaseUnavailable } from "../../../../control-plane/service-error.ts";

const refusedValue = Object.assign(new Error("value out of range"), { code: "22003" });
const internal = new DatabaseUnavailable("failing", new Error("XX001"));

const record = (requestId: string) =>
  ({
    requestId,
    attempt: 1,
    source: "engine",
    endReason: "stop",
    cost: 1n,
    account: "u:1",
  }) as unknown as SettledRecord;

/** A queue before a database that fails for the records that `failureOf` names, the first of a group first. */
function openQueue(failureOf: (id: string) => unknown) {
  let nowMs = 0;
  const written: string[] = [];
  const settle = (async ({ records }) => {
    for (const { requestId } of records) {
      const failure = failureOf(requestId);
      if (failure !== undefined) throw failure;
    }
    written.push(...records.map(({ requestId }) => requestId));
    return { fresh: new Set(records.map(recordKey)), late: 0, losses: [] };
  }) as SettlementStore["settle"];
  const queue = new SettlementQueue({
    store: { settle } as SettlementStore,
    log: pino({ level: "silent" }),
    metrics: createBillingMetrics(new Registry()),
    clock: { monotonicMs: () => nowMs, unixMs: () => nowMs },
    gatherMs: 0,
  });
  return {
    written,
    async send(ids: readonly string[]): Promise<readonly SettleOutcome[]> {
      const outcomes = ids.map((id) => queue.add(record(id)));
      await queue.drain();
      nowMs += 5_000;
      return Promise.all(outcomes);
    },
  };
}

describe("the settlement queue", () => {
  it("refuses a record that fails with an internal error also if each of its groups has a refused value", async () => {
    const { send } = openQueue((id) =>
      id === "poison" ? internal : id.startsWith("invalid") ? refusedValue : undefined,
    );
    const outcomes: SettleOutcome[] = [];
    for (let n = 0; n < 6; n++)
      outcomes.push((await send([`invalid-${n}`, "poison", `good-${n}`]))[1] as SettleOutcome);
    expect(outcomes.slice(0, 4)).toEqual(["again", "again", "again", "again"]);
    expect(outcomes[4]).toEqual({ refused: internal });
  });

  it("sends a group again, each record once, when PostgreSQL becomes unavailable between its parts", async () => {
    const outage = new DatabaseUnavailable("unreachable");
    let isDown = false;
    const { send, written } = openQueue((id) => {
      if (id === "0") return refusedValue;
      if (id === "300") isDown = true;
      return isDown ? outage : undefined;
    });
    const ids = Array.from({ length: 500 }, (_, n) => String(n));
    const outcomes = await send(ids);
    expect(outcomes[0]).toEqual({ refused: refusedValue });
    expect(ids.filter((_, n) => outcomes[n] === "durable")).toEqual(written);
    expect(outcomes.filter((one) => one === "again")).toHaveLength(500 - 1 - written.length);
    expect(new Set(written).size).toBe(written.length);
  });
});
