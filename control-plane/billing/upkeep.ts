import type { Logger } from "pino";
import { background, repeat } from "../../proto/repeat.ts";
import { type Clock, systemClock } from "./clock.ts";
import type { BillingMetrics } from "./metrics.ts";
import type { SettlementStore } from "./store.ts";

export interface BillingUpkeep {
  /** Creates the coming months' partitions and continues in the background. Throws DatabaseUnavailable. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

const everyMs = 60_000;
const monthsEveryMs = 6 * 3_600_000;

/** Creates partitions of usage and ledger in advance, and checks that the ledger balances. */
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
