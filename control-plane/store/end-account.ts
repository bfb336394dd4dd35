// The end of an account in one transaction. Ledger, usage, audit and the revoked keys' rows stay: they are records of the past.
import { sql, type Transaction } from "kysely";
import type { AccountId } from "../../proto/ids.ts";
import type { Actor } from "../accounts/store.ts";
import { hasOtherAdmin, liveAccount, lockAdmins } from "./account-rows.ts";
import { writeAudit } from "./audit-rows.ts";
import { announce } from "./change-feed.ts";
import type { Database } from "./schema.ts";

export async function mayEnd(trx: Transaction<Database>, account: AccountId): Promise<"yes" | "gone" | "last_admin"> {
  await lockAdmins(trx);
  const row = await liveAccount(trx, account).select("is_admin").forUpdate().executeTakeFirst();
  if (!row) return "gone";
  if (!row.is_admin) return "yes";
  return (await hasOtherAdmin(trx, account)) ? "yes" : "last_admin";
}

export async function endAccount(
  trx: Transaction<Database>,
  { account, ip }: Actor,
): Promise<"ended" | "gone" | "last_admin" | "has_deployments"> {
  const may = await mayEnd(trx, account);
  if (may !== "yes") return may;
  const left = await trx
    .selectFrom("deployment")
    .select("deploy_id")
    .where("account_id", "=", account)
    .where("status", "<>", "deleted")
    .limit(1)
    .executeTakeFirst();
  const adapter = await trx
    .selectFrom("adapter")
    .select("adapter_id")
    .where("account_id", "=", account)
    .where("status", "<>", "deleted")
    .limit(1)
    .executeTakeFirst();
  if (left || adapter) return "has_deployments";
  // Requests that wait for their webhook go as well, with the calls that tell of them: nobody is there to hear it.
  const ownRows = [
    "login_session",
    "cli_login",
    "password",
    "ssh_key",
    "voice",
    "model_meta",
    "webhook_job",
    "webhook_secret",
  ] as const;
  for (const table of ownRows) await trx.deleteFrom(table).where("account_id", "=", account).execute();
  // Counted by the calls' own trigger, down to nothing by now.
  await trx.deleteFrom("webhook_kept").where("account_id", "=", account).where("bytes", "<=", 0n).execute();
  await trx
    .updateTable("api_key")
    .set({ revoked_at: sql<Date>`now()` })
    .where("account_id", "=", account)
    .where("revoked_at", "is", null)
    .execute();
  // Their bytes go with the next sweep, their batches end at the next line.
  await trx.updateTable("file").set({ removed_at: sql<Date>`now()` }).where("account_id", "=", account).execute();
  await trx
    .updateTable("batch")
    .set({ status: "cancelling", cancelling_at: sql<Date>`now()` })
    .where("account_id", "=", account)
    .where("status", "in", ["validating", "in_progress"])
    .execute();
  await trx
    .updateTable("account")
    .set({
      email: account,
      display_name: account,
      email_verified: false,
      name: "",
      first_name: "",
      last_name: "",
      country: "",
      country_code: "",
      company: "",
      website: "",
      title: "",
      use_case: "",
      attribution: "",
      marketing_emails: false,
      team_display_name: null,
      is_admin: false,
      deleted_at: sql<Date>`now()`,
    })
    .where("account_id", "=", account)
    .execute();
  await writeAudit(trx, { actor: account, action: "account.delete", subject: account, account, ip });
  await announce(trx, "account", account);
  return "ended";
}
