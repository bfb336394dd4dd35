// Deletes an account in one transaction. Ledger, usage, audit and the revoked keys' rows stay, as records.
import type { AccountId } from "../../../proto/ids.ts";
import type { Actor } from "../../accounts/store.ts";
import { announce } from "../core/change-feed.ts";
import type { Trx } from "../core/schema.ts";
import { now } from "../core/time.ts";
import { hasOtherAdmin, liveAccount, lockAdmins } from "./account-rows.ts";
import { auditOwn } from "./audit-rows.ts";

export async function mayEnd(trx: Trx, account: AccountId): Promise<"yes" | "gone" | "last_admin"> {
  await lockAdmins(trx);
  const row = await liveAccount(trx, account).select("isAdmin").forUpdate().executeTakeFirst();
  if (!row) return "gone";
  if (!row.isAdmin) return "yes";
  return (await hasOtherAdmin(trx, account)) ? "yes" : "last_admin";
}

export async function endAccount(trx: Trx, actor: Actor): Promise<"ended" | "gone" | "last_admin" | "has_deployments"> {
  const { account } = actor;
  const may = await mayEnd(trx, account);
  if (may !== "yes") return may;
  const left = await trx
    .selectFrom("deployment")
    .select("deployId")
    .where("accountId", "=", account)
    .where("status", "<>", "deleted")
    .limit(1)
    .executeTakeFirst();
  const adapter = await trx
    .selectFrom("adapter")
    .select("adapterId")
    .where("accountId", "=", account)
    .where("status", "<>", "deleted")
    .limit(1)
    .executeTakeFirst();
  if (left || adapter) return "has_deployments";
  // Includes requests with a webhook and their calls: they have no receiver any more.
  const ownRows = [
    "loginSession",
    "cliLogin",
    "password",
    "secondFactor",
    "recoveryCode",
    "signInChallenge",
    "sshKey",
    "programApplication",
    "voice",
    "modelMeta",
    "modelAlias",
    "webhookJob",
    "webhookSecret",
  ] as const;
  for (const table of ownRows) await trx.deleteFrom(table).where("accountId", "=", account).execute();
  // The trigger of the calls has reduced this count to 0.
  await trx.deleteFrom("webhookKept").where("accountId", "=", account).where("bytes", "<=", 0n).execute();
  await trx
    .updateTable("apiKey")
    .set({ revokedAt: now })
    .where("accountId", "=", account)
    .where("revokedAt", "is", null)
    .execute();
  // The next sweep removes the bytes; batches end at their next line.
  await trx.updateTable("file").set({ removedAt: now }).where("accountId", "=", account).execute();
  await trx
    .updateTable("batch")
    .set({ status: "cancelling", cancellingAt: now })
    .where("accountId", "=", account)
    .where("status", "in", ["validating", "in_progress"])
    .execute();
  await trx
    .updateTable("account")
    .set({
      email: account,
      displayName: account,
      emailVerified: false,
      name: "",
      firstName: "",
      lastName: "",
      country: "",
      countryCode: "",
      company: "",
      website: "",
      title: "",
      useCase: "",
      attribution: "",
      marketingEmails: false,
      teamDisplayName: null,
      isAdmin: false,
      deletedAt: now,
    })
    .where("accountId", "=", account)
    .execute();
  await auditOwn(trx, actor, "account.delete");
  await announce(trx, "account", account);
  return "ended";
}
