// Limits: rates in memory, updated by the change feed and shared between replicas.
import type { Logger } from "pino";
import type { GpuType } from "../../proto/gpu.ts";
import { repeat } from "../../proto/repeat.ts";
import { createLimitRequests, type QuotaDefaults } from "../quotas/limit-requests.ts";
import { RateMeters } from "../quotas/rate-limiter.ts";
import { type RateLink, SharedRates } from "../quotas/shared-rates.ts";
import { createQuotaStore } from "../store/accounts/quota-store.ts";
import type { ChangeFeed } from "../store/core/change-feed.ts";
import type { OpenDatabase } from "../store/core/database.ts";
import { refreshOn } from "./refresh-loop.ts";

export interface QuotaDeps {
  readonly db: OpenDatabase["db"];
  readonly feed: Pick<ChangeFeed, "on">;
  /** Connection to the other replicas; undefined: there are none. */
  readonly link: RateLink | undefined;
  readonly defaults: QuotaDefaults;
  /** Reads every host. */
  readonly gpuTypes?: () => Promise<readonly GpuType[]>;
  readonly log: Logger;
}

const shareEveryMs = 250;
const gpuTypesForMs = 10_000;

/** Reads at most once in ten seconds, however many callers ask. */
function remembered(read: () => Promise<readonly GpuType[]>): () => Promise<readonly GpuType[]> {
  let last: { readonly atMs: number; readonly types: Promise<readonly GpuType[]> } | undefined;
  return () => {
    if (last && performance.now() - last.atMs < gpuTypesForMs) return last.types;
    const types = read();
    types.catch(() => {
      last = undefined;
    });
    last = { atMs: performance.now(), types };
    return types;
  };
}

export function createQuotas({ db, feed, link, defaults, gpuTypes, log }: QuotaDeps) {
  const store = createQuotaStore(db);
  const rates = new RateMeters({ defaults: defaults.rates });
  const shared = link && new SharedRates({ meters: rates, link });
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

  return {
    rates,
    desk: createLimitRequests(store, defaults, gpuTypes && remembered(gpuTypes)),
    refresh,
    run: async (signal: AbortSignal) =>
      void (await Promise.all([loop.run(signal), shared && repeat(shareEveryMs, signal, () => shared.tick())])),
  };
}
