import type { AccountId, KeyId } from "../../proto/ids.ts";
import type { Act } from "../act.ts";
import { notFound } from "../service-error.ts";
import { type Clock, systemClock } from "./clock.ts";
import { accountMonthBudget, keyMonthBudget } from "./scopes.ts";
import type { KeyLimit, LimitStore } from "./store.ts";

export const limitedKeyNotFound = () =>
  notFound("api_key_not_found", "API key not found. `GET /v1/api-tokens` lists your keys.");

export interface Limits {
  /** Nano-USD per UTC month; null: none. */
  ofAccount(account: AccountId): Promise<bigint | null>;
  /** Effective on every replica in under two seconds; null removes it. */
  setAccount(account: AccountId, limit: bigint | null, by: Act): Promise<void>;
  ofKeys(account: AccountId): Promise<readonly KeyLimit[]>;
  /** Throws limitedKeyNotFound, also for another account's key. */
  setKey(account: AccountId, key: KeyId, limit: bigint | null, by: Act): Promise<void>;
}

export function createLimits(deps: {
  readonly store: LimitStore;
  /** Sets and lifts suspensions according to the books. */
  readonly updateStatus: (account: AccountId) => Promise<void>;
  readonly clock?: Clock;
}): Limits {
  const { store } = deps;
  const clock = deps.clock ?? systemClock;
  return {
    ofAccount: store.accountLimit,
    async setAccount(account, limit, by) {
      await store.setLimit({ account }, limit, accountMonthBudget(account, clock.unixMs()), by);
      await deps.updateStatus(account);
    },
    ofKeys: (account) => store.keyLimits(account, (key) => keyMonthBudget(key, clock.unixMs())),
    async setKey(account, key, limit, by) {
      if (!(await store.setLimit({ account, key }, limit, keyMonthBudget(key, clock.unixMs()), by)))
        throw limitedKeyNotFound();
    },
  };
}
