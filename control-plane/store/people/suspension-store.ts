import type { Kysely } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import type { SuspendReason } from "../../../proto/suspend-reason.ts";
import type { SuspensionStore } from "../../accounts/store.ts";
import { asked } from "../core/asked.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import type { Database } from "../core/schema.ts";
import { epochMs } from "../core/time.ts";
import { liftIn, lockReasons, suspendIn } from "./suspension-rows.ts";

export function createSuspensionStore(db: Kysely<Database>): SuspensionStore {
  return asked<SuspensionStore>({
    suspend: (account, reason, act) =>
      inTransaction(db, async (trx) => {
        if (!(await lockReasons(trx, account))) return "gone";
        if (!(await suspendIn(trx, account, reason, act))) return "unchanged";
        await announce(trx, "account", account);
        return "done";
      }),

    lift: (account, reason, act) => lift(account, () => [reason], act),
    liftAll: (account, act) => lift(account, (reasons) => reasons, act),

    suspensions: (account) =>
      db
        .selectFrom("accountSuspension")
        .select(["reason", epochMs("since").as("sinceMs"), "suspendedBy as by", "note"])
        .where("accountId", "=", account)
        .orderBy("since")
        .execute(),
  });

  function lift(
    account: AccountId,
    which: (reasons: readonly SuspendReason[]) => readonly SuspendReason[],
    act: Parameters<SuspensionStore["lift"]>[2],
  ) {
    return inTransaction(db, async (trx) => {
      const reasons = await lockReasons(trx, account);
      if (!reasons) return "gone";
      if (!(await liftIn(trx, account, which(reasons), act))) return "unchanged";
      await announce(trx, "account", account);
      return "done";
    });
  }
}
