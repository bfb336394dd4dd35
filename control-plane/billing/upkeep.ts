import type { Logger } from "pino";
import { background, repeat } from "../../proto/repeat.ts";
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

  const rounds = background((signal) =>
    repeat(everyMs, signal, () =>
      round().catch((error) => deps.log.warn({ err: error }, "billing upkeep failed; will retry in a minute")),
    ),
  );

  return {
    async start() {
      await deps.store.ensureMoneyMonths(new Date(clock.unixMs()));
      monthsAtMs = clock.monotonicMs();
      rounds.start();
    },
    stop: rounds.stop,
  };
}
