import { sql } from "kysely";
import type { AuditStore } from "../../accounts/store.ts";
import type { Actor } from "../../act.ts";
import { asked } from "../core/outage.ts";
import type { Db, Trx } from "../core/schema.ts";
import { epochMs } from "../core/time.ts";

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
export async function writeAudit(trx: Trx, entry: AuditEntry): Promise<void> {
  const { account, before = null, after = null, note = "", ...rest } = entry;
  await trx
    .insertInto("audit")
    .values({ ...rest, accountId: account, before: JSON.stringify(before), after: JSON.stringify(after), note })
    .execute();
}

/** Writes an action of a person, on whatever account. */
export const auditAct = (
  trx: Trx,
  { by, ip, note }: { readonly by: string; readonly ip: string; readonly note?: string | undefined },
  action: Omit<AuditEntry, "actor" | "ip" | "note">,
): Promise<void> => writeAudit(trx, { actor: by, ip, ...(note === undefined ? {} : { note }), ...action });

/** Writes an action of Stoker itself. */
export const auditSystem = (trx: Trx, action: Omit<AuditEntry, "actor" | "ip">): Promise<void> =>
  writeAudit(trx, { actor: "system", ip: "", ...action });

/** Writes a change that an account made to itself, or to its `subject`. */
export const auditOwn = (
  trx: Trx,
  { account, ip, by = account }: Actor,
  action: string,
  change: Partial<Pick<AuditEntry, "subject" | "before" | "after">> = {},
): Promise<void> => writeAudit(trx, { actor: by, action, subject: account, account, ip, ...change });

/** Name of the subject. Ids are random or prefixed, so at most one of these tables has it. */
const subjectName = sql<string | null>`coalesce(
  (select email from account where account_id = audit.subject),
  (select model_name from deployment where deploy_id = audit.subject),
  (select name from api_key where token_id = audit.subject),
  (select hostname from host where host_id = audit.subject),
  (select name from project where project_id = audit.subject))`;

export function createAuditStore(db: Db): AuditStore {
  return asked<AuditStore>({
    async read({ account, actor, action, fromMs, toMs }, before, limit) {
      let query = db
        .selectFrom("audit")
        .leftJoin("account as by", "by.accountId", "audit.actor")
        .leftJoin("account as of", "of.accountId", "audit.accountId")
        .select(["auditId as id", epochMs("at").as("atMs"), "actor", "action", "subject", "audit.accountId as account"])
        .select(["ip", "before", "after", "note", "by.email as actorEmail", "of.email as accountEmail"])
        .select(subjectName.as("subjectName"))
        .orderBy("auditId", "desc")
        .limit(limit);
      if (before !== undefined) query = query.where("auditId", "<", before);
      if (account !== undefined)
        query = query.where((row) => row.or([row("audit.accountId", "=", account), row("actor", "=", account)]));
      if (actor !== undefined) query = query.where("actor", "=", actor);
      if (action !== undefined)
        query = query.where((row) =>
          row.or([
            row("action", "=", action),
            row(row.fn<string>("split_part", ["action", row.val("."), row.lit(1)]), "=", action),
          ]),
        );
      if (fromMs !== undefined) query = query.where("at", ">=", new Date(fromMs));
      if (toMs !== undefined) query = query.where("at", "<", new Date(toMs));
      return query.execute();
    },
  });
}
