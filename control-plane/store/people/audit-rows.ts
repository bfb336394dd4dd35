import type { Transaction } from "kysely";
import type { Actor } from "../../accounts/store.ts";
import type { Database } from "../core/schema.ts";

/** One audited action. `before` and `after` hold no secrets. */
export interface AuditEntry {
  /** The acting account; `system` for Stoker itself. */
  readonly actor: string;
  /** `noun.verb`: account.suspend, credit.grant, price.set, key.create, key.revoke, jwt.mint, limit.change, ... */
  readonly action: string;
  /** Id of the changed object. */
  readonly subject: string;
  /** Account that the action concerns; null: the installation. */
  readonly account: string | null;
  /** The client's address; empty for `system`. */
  readonly ip: string;
  readonly before?: unknown;
  readonly after?: unknown;
  readonly note?: string;
}

/** Call it in the transaction of the action. */
export async function writeAudit(trx: Transaction<Database>, entry: AuditEntry): Promise<void> {
  const { account, before = null, after = null, note = "", ...rest } = entry;
  await trx
    .insertInto("audit")
    .values({ ...rest, accountId: account, before: JSON.stringify(before), after: JSON.stringify(after), note })
    .execute();
}

/** Writes an action of a person, on whatever account. */
export const auditAct = (
  trx: Transaction<Database>,
  { by, ip, note }: { readonly by: string; readonly ip: string; readonly note?: string },
  action: Omit<AuditEntry, "actor" | "ip" | "note">,
): Promise<void> => writeAudit(trx, { actor: by, ip, ...(note === undefined ? {} : { note }), ...action });

/** Writes a change that an account made to itself. */
export const auditOwn = (
  trx: Transaction<Database>,
  { account, ip }: Actor,
  action: string,
  change: Pick<AuditEntry, "before" | "after"> = {},
): Promise<void> => writeAudit(trx, { actor: account, action, subject: account, account, ip, ...change });
