// Attempts whose usage record never comes. The gateway's count bills them once their host has been silent for a minute, or has
// been back for one with another agent that says nothing of them; one that lives on and has said nothing for a day never will,
// and the customer owes nothing for it.

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
  /** One look; throws when the database is away. */
  round(): Promise<void>;
  stop(): Promise<void>;
}

export interface LostAttemptsDeps {
  readonly store: CountStore;
  readonly settlement: Pick<SettlementStore, "settle">;
  readonly log: Logger;
  readonly metrics: BillingMetrics;
  readonly clock?: Clock;
  /** Silence after which a host's record is waited for no longer; 60 s when left out. */
  readonly silentMs?: number;
}

const everyMs = 10_000;
const voidMs = 24 * 3_600_000;
const atOnce = 200;

export function createLostAttempts(deps: LostAttemptsDeps): LostAttempts {
  const clock = deps.clock ?? systemClock;
  const silentMs = deps.silentMs ?? 60_000;
  /** Silence is only what a running control plane with its database heard: while either was away, hosts could not be. */
  let listensSinceMs: number | undefined;

  async function round(): Promise<void> {
    try {
      await deps.store.resolveRecorded();
      listensSinceMs ??= clock.monotonicMs();
      if (clock.monotonicMs() - listensSinceMs < silentMs) return;
      for (const count of await deps.store.openCounts(silentMs, atOnce)) await look(count);
      await deps.store.resolveRecorded();
    } catch (error) {
      listensSinceMs = undefined;
      throw error;
    }
  }

  async function look(count: OpenCount): Promise<void> {
    const { requestId, attempt, lost } = count;
    try {
      if (lost && !count.mayStillTell) {
        await settle(asDelivered(lostRecord(count, lost), count.outputTokens));
        deps.log.info(
          { requestId, attempt, host: lost.host },
          "billed as delivered: its host is lost, or has no record of it",
        );
      } else if (clock.unixMs() - count.reportedAtMs >= voidMs) await release(count);
    } catch (error) {
      if (isOutage(error)) throw error;
      // One that cannot be written must not hold up the others.
      deps.log.error({ err: error, requestId, attempt }, "a lost attempt was not settled; it is tried again");
    }
  }

  async function release(count: OpenCount): Promise<void> {
    const { requestId, attempt, lost } = count;
    if (!(await deps.store.release(count, "no usage record within 24 hours"))) return;
    deps.metrics.released.inc({ what: "attempt" });
    deps.log.warn({ requestId, attempt, account: count.account }, "released: no usage record came within 24 hours");
    // A row of nothing: whatever still comes changes no bill.
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

/** The record as a restarted agent would send it that found nothing but the start of the attempt. */
function lostRecord(count: DeliveredCount, lost: LostAttempt): SettledRecord {
  const { requestId, attempt, account, leaseIds, hold } = count;
  const { host: _, brokeAtMs: __, provider, ...known } = lost;
  const tokens = { input: lost.inputTokens, cachedInput: 0, output: 0 };
  return {
    ...noUsage,
    ...known,
    endUser: lost.endUser ?? null,
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
