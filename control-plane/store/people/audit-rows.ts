import type { Transaction } from "kysely";
import type { Actor } from "../../accounts/store.ts";
import type { Database } from "../core/schema.ts";

/** Who did what to whom, in the transaction that did it. `before` and `after` hold no secrets. */
export interface AuditEntry {
  /** The account that acted; `system` for what Stoker did by itself. */
  readonly actor: string;
  /** `noun.verb`: account.suspend, credit.grant, price.set, key.create, key.revoke, jwt.mint, limit.change, ... */
  readonly action: string;
  /** Id of what was changed. */
  readonly subject: string;
  /** Whose account it concerns; null: the installation's. */
  readonly account: string | null;
  /** The client's address; empty for `system`. */
  readonly ip: string;
  readonly before?: unknown;
  readonly after?: unknown;
  readonly note?: string;
}

export async function writeAudit(trx: Transaction<Database>, entry: AuditEntry): Promise<void> {
  await trx
    .insertInto("audit")
    .values({
      actor: entry.actor,
      action: entry.action,
      subject: entry.subject,
      accountId: entry.account,
      ip: entry.ip,
      before: JSON.stringify(entry.before ?? null),
      after: JSON.stringify(entry.after ?? null),
      note: entry.note ?? "",
    })
    .execute();
}

/** Writes what an account changed of itself. */
export function auditOwn(
  trx: Transaction<Database>,
  { account, ip }: Actor,
  action: string,
  change: Pick<AuditEntry, "before" | "after"> = {},
): Promise<void> {
  return writeAudit(trx, { actor: account, action, subject: account, account, ip, ...change });
}
