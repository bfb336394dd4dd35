// What quotas need kept. Implemented by store/quota-store.ts.
import type { AccountId } from "../../proto/ids.ts";
import type { OwnRateLimits } from "./rate-limits.ts";

export interface QuotaStore {
  /** Of all accounts that have a rate limit of their own. */
  ownRateLimits(): Promise<ReadonlyMap<AccountId, OwnRateLimits>>;
}
