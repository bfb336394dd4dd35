// Why an account may not spend. Several reasons may hold at once; the account shows the gravest, and each is lifted by the act
// that removes its cause. The store announces `account`, so every replica refuses, and calls slices back, in under two seconds.
import type { AccountId } from "../../proto/ids.ts";
import type { SuspendReason } from "../../proto/suspend-reason.ts";
import type { Act } from "./act.ts";
import { AccountNotFound, NotSuspended } from "./errors.ts";

/** `gone`: there is no such account. `unchanged`: it was so already, and nothing was written. */
export type SuspendOutcome = "done" | "unchanged" | "gone";

export interface SuspensionRecord {
  readonly reason: SuspendReason;
  readonly sinceMs: number;
  /** An account's id, or `system`. */
  readonly by: string;
  readonly note: string;
}

/** Each write is one transaction: the reason, the one the account shows, the audit row, the announcement. */
export interface SuspensionStore {
  suspend(account: AccountId, reason: SuspendReason, act: Act): Promise<SuspendOutcome>;
  lift(account: AccountId, reason: SuspendReason, act: Act): Promise<SuspendOutcome>;
  /** Lifts every reason that holds. */
  liftAll(account: AccountId, act: Act): Promise<SuspendOutcome>;
  suspensions(account: AccountId): Promise<readonly SuspensionRecord[]>;
}

export interface Suspension {
  /** A reason that holds already stays as it was. Throws AccountNotFound. */
  suspend(account: AccountId, reason: SuspendReason, act: Act): Promise<void>;
  /** Without a reason: all that hold. Throws AccountNotFound, NotSuspended. */
  lift(account: AccountId, reason: SuspendReason | undefined, act: Act): Promise<void>;
}

export function createSuspension(store: SuspensionStore): Suspension {
  return {
    async suspend(account, reason, act) {
      if ((await store.suspend(account, reason, act)) === "gone") throw new AccountNotFound();
    },
    async lift(account, reason, act) {
      const outcome = await (reason === undefined ? store.liftAll(account, act) : store.lift(account, reason, act));
      if (outcome === "gone") throw new AccountNotFound();
      if (outcome === "unchanged") throw new NotSuspended(reason);
    },
  };
}
