import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import { type Clock, systemClock } from "./clock.ts";
import type { BillingMetrics } from "./metrics.ts";
import type { SettlementStore } from "./store.ts";

export interface BillingUpkeep {
  /** Makes the months of usage and ledger; throws when the database is away. Then goes on in the background. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

const everyMs = 60_000;
const monthsEveryMs = 6 * 3_600_000;

/** Months of usage and ledger made ahead, and the ledger's balance watched. */
export function createBillingUpkeep(deps: {
  readonly store: SettlementStore;
  readonly log: Logger;
  readonly metrics: BillingMetrics;
  readonly clock?: Clock;
}): BillingUpkeep {
  const clock = deps.clock ?? systemClock;
  const stopping = new AbortController();
  let loop: Promise<void> | undefined;
  let monthsAtMs = 0;

  async function round(): Promise<void> {
    if (clock.monotonicMs() - monthsAtMs >= monthsEveryMs) {
      await deps.store.ensureMoneyMonths(new Date(clock.unixMs()));
      monthsAtMs = clock.monotonicMs();
    }
    const imbalance = await deps.store.recentImbalance();
    deps.metrics.imbalance.set(Number(imbalance));
    if (imbalance !== 0n) deps.log.error({ imbalance: String(imbalance) }, "the ledger does not balance");
  }

  return {
    async start() {
      await deps.store.ensureMoneyMonths(new Date(clock.unixMs()));
      monthsAtMs = clock.monotonicMs();
      loop = (async () => {
        while (!stopping.signal.aborted) {
          await round().catch((error) =>
            deps.log.warn({ err: error }, "billing upkeep failed; it runs again in a minute"),
          );
          await wait(everyMs, undefined, { signal: stopping.signal }).catch(() => {});
        }
      })();
    },
    async stop() {
      stopping.abort();
      await loop;
    },
  };
}
