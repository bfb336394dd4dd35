// Attempts whose usage record does not arrive. The gateway's count bills them once their host was unreachable for a minute, or
// was back for a minute with another agent that does not report them. If the host stays reachable and reports nothing for a
// day, the attempt is free.

import type { Logger } from "pino";
import { costOf, nano } from "../../proto/money.ts";
import { background, repeat } from "../../proto/repeat.ts";
import { noUsage } from "../../proto/usage-record.ts";
import { type Clock, systemClock } from "./clock.ts";
import { isOutage } from "./database-failure.ts";
import type { DeliveredCount, LostAttempt } from "./delivered.ts";
import type { BillingMetrics } from "./metrics.ts";
import { providerCharge } from "./provider-cost.ts";
import { asDelivered, type SettledRecord } from "./record.ts";
import type { CountStore, OpenCount, SettlementStore } from "./store.ts";

export interface LostAttempts {
  start(): void;
  /** Checks once. Throws DatabaseUnavailable. */
  round(): Promise<void>;
  stop(): Promise<void>;
}

export interface LostAttemptsDeps {
  readonly store: CountStore;
  readonly settlement: Pick<SettlementStore, "settle">;
  readonly log: Logger;
  readonly metrics: BillingMetrics;
  readonly clock?: Clock;
  /** Time without reports after which a host's records are no longer awaited; 60 s when left out. */
  readonly silentMs?: number;
}

const everyMs = 10_000;
const voidMs = 24 * 3_600_000;
const groupSize = 200;

export function createLostAttempts(deps: LostAttemptsDeps): LostAttempts {
  const clock = deps.clock ?? systemClock;
  const silentMs = deps.silentMs ?? 60_000;
  /** Hosts can report only while this control plane and its database run: silence counts from here. */
  let reachableSinceMs: number | undefined;

  async function round(): Promise<void> {
    try {
      await deps.store.resolveRecorded();
      reachableSinceMs ??= clock.monotonicMs();
      if (clock.monotonicMs() - reachableSinceMs < silentMs) return;
      for (const count of await deps.store.openCounts(silentMs, groupSize)) await resolve(count);
      await deps.store.resolveRecorded();
    } catch (error) {
      reachableSinceMs = undefined;
      throw error;
    }
  }

  async function resolve(count: OpenCount): Promise<void> {
    const { requestId, attempt, lost } = count;
    try {
      if (lost && !count.mayStillReport) {
        await settle(asDelivered(lostRecord(count, lost), count.outputTokens));
        deps.log.info(
          { requestId, attempt, host: lost.host },
          "attempt billed as delivered: its host is lost, or has no record of it",
        );
      } else if (clock.unixMs() - count.reportedAtMs >= voidMs) await release(count);
    } catch (error) {
      if (isOutage(error)) throw error;
      // One that cannot be written must not delay the others.
      deps.log.error({ err: error, requestId, attempt }, "could not settle a lost attempt; will retry");
    }
  }

  async function release(count: OpenCount): Promise<void> {
    const { requestId, attempt, lost } = count;
    if (!(await deps.store.release(count, "no usage record within 24 hours"))) return;
    deps.metrics.released.inc({ what: "attempt" });
    deps.log.warn(
      { requestId, attempt, account: count.account },
      "attempt released: no usage record arrived within 24 hours",
    );
    // An empty row: a record that arrives later changes no bill.
    if (lost) await settle(asDelivered(lostRecord(count, lost), 0));
  }

  async function settle(record: SettledRecord): Promise<void> {
    const { fresh, losses } = await deps.settlement.settle({ records: [record], counts: [] });
    deps.metrics.usageEvents.inc({ result: fresh.size > 0 ? "captured" : "duplicate" });
    deps.metrics.lost(losses);
  }

  return {
    round,
    ...background((signal) =>
      repeat(everyMs, signal, () =>
        round().catch((error) => deps.log.warn({ err: error }, "could not search for lost attempts; will retry")),
      ),
    ),
  };
}

/** The record that a restarted agent would send if it found only the start of the attempt. */
function lostRecord(count: DeliveredCount, lost: LostAttempt): SettledRecord {
  const { requestId, attempt, account, leaseIds, hold } = count;
  const { host: _, brokeAtMs: __, provider, ...known } = lost;
  const tokens = { input: lost.inputTokens, cachedInput: 0, output: 0 };
  return {
    ...noUsage,
    ...known,
    endUser: lost.endUser ?? null,
    tier: lost.tier ?? null,
    requestId,
    attempt,
    account,
    leaseIds,
    hold,
    endedAtMs: lost.admittedAtMs,
    nodeEpoch: 0n,
    cachedInputTokens: lost.cachedInputTokens ?? 0,
    source: "counted",
    endReason: "lost",
    cost: nano(costOf(tokens, lost.rates)),
    provider: provider && providerCharge(provider, lost, tokens),
  };
}
