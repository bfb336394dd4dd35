// Limits put together: rates in memory, kept fresh by the change feed.
import type { Logger } from "pino";
import { createLimitDesk, type QuotaDefaults } from "../quotas/limit-desk.ts";
import { RateMeters } from "../quotas/rate-limiter.ts";
import type { ChangeFeed } from "../store/change-feed.ts";
import type { OpenDatabase } from "../store/database.ts";
import { createQuotaStore } from "../store/quota-store.ts";
import { refreshOn } from "./refresh-loop.ts";

export interface QuotaDeps {
  readonly db: OpenDatabase["db"];
  readonly feed: Pick<ChangeFeed, "on">;
  readonly defaults: QuotaDefaults;
  readonly log: Logger;
}

export function createQuotas({ db, feed, defaults, log }: QuotaDeps) {
  const store = createQuotaStore(db);
  const rates = new RateMeters({ defaults: defaults.rates });
  const refresh = async () => rates.setOwnLimits(await store.ownRateLimits());
  const loop = refreshOn(feed, ["quota"], {
    what: "rate limits",
    refresh: async () => {
      await refresh();
      rates.forgetIdle();
    },
    everyMs: 60_000,
    log,
  });
  return { rates, desk: createLimitDesk(store, defaults), refresh, run: loop.run };
}
