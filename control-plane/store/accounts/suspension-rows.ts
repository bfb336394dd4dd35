// Suspensions within a caller's transaction: a payment lifts the suspension in the transaction that books it. When these return
// true, the caller announces `account` as its last statement.

import { sql } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import { type SuspendReason, suspendReasons } from "../../../proto/suspend-reason.ts";
import type { SuspensionStore } from "../../accounts/store.ts";
import type { Act } from "../../act.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db, Trx } from "../core/schema.ts";
import { epochMs } from "../core/time.ts";
import { lockAccount } from "./account-rows.ts";
import { auditAct } from "./audit-rows.ts";

/** Returns true when the reason is new; false also when there is no such account. */
export async function suspendIn(trx: Trx, account: AccountId, reason: SuspendReason, act: Act): Promise<boolean> {
  const before = await lockReasons(trx, account);
  if (!before || before.includes(reason)) return false;
  await trx
    .insertInto("accountSuspension")
    .values({ accountId: account, reason, suspendedBy: act.by, note: act.note })
    .execute();
  await noteChange(trx, account, "account.suspend", before, [...before, reason], act);
  return true;
}

/** Lifts the current reasons among `reasons`; returns true when there was one. */
export async function liftIn(
  trx: Trx,
  account: AccountId,
  reasons: readonly SuspendReason[],
  act: Act,
): Promise<boolean> {
  const before = await lockReasons(trx, account);
  const after = before?.filter((reason) => !reasons.includes(reason)) ?? [];
  if (!before || after.length === before.length) return false;
  await trx
    .deleteFrom("accountSuspension")
    .where("accountId", "=", account)
    .where("reason", "in", [...reasons])
    .execute();
  await noteChange(trx, account, "account.lift", before, after, act);
  return true;
}

/** Locks the account and returns its reasons; undefined when there is no such account. */
export async function lockReasons(trx: Trx, account: AccountId): Promise<readonly SuspendReason[] | undefined> {
  if (!(await lockAccount(trx, account, "forUpdate"))) return undefined;
  const rows = await trx
    .selectFrom("accountSuspension")
    .select("reason")
    .where("accountId", "=", account)
    .orderBy(sql`array_position(${sql.val([...suspendReasons])}::text[], reason)`)
    .execute();
  return rows.map((row) => row.reason);
}

async function noteChange(
  trx: Trx,
  account: AccountId,
  action: string,
  before: readonly SuspendReason[],
  after: readonly SuspendReason[],
  act: Act,
): Promise<void> {
  const shown = suspendReasons.find((reason) => after.includes(reason)) ?? null;
  await trx.updateTable("account").set({ suspendReason: shown }).where("accountId", "=", account).execute();
  const change = { before: { reasons: before }, after: { reasons: after } };
  await auditAct(trx, act, { action, subject: account, account, ...change });
}

export function createSuspensionStore(db: Db): SuspensionStore {
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
