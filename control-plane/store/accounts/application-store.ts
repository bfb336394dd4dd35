import { sql } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import type { ApplicationRecord, ApplicationStore } from "../../accounts/store.ts";
import type { Act } from "../../act.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db, Trx } from "../core/schema.ts";
import { epochMs, now } from "../core/time.ts";
import { creditIn } from "../money/funds-store.ts";
import { auditAct } from "./audit-rows.ts";
import { liftIn } from "./suspension-rows.ts";

export function createApplicationStore(db: Db): ApplicationStore {
  const rows = () =>
    db
      .selectFrom("programApplication")
      .innerJoin("account", "account.accountId", "programApplication.accountId")
      .select(["applicationId as id", "programApplication.accountId as account", "email", "status"])
      .select(["programApplication.company", "ceo", "funding", "foundedOn", "programApplication.website", "deal"])
      .select([
        epochMs("programApplication.createdAt").as("createdAtMs"),
        sql<ApplicationRecord["decision"]>`case when decided_at is not null then json_build_object(
          'atMs', ${epochMs("decidedAt")}, 'by', coalesce(decided_by, ''), 'note', coalesce(decision_note, '')) end`.as(
          "decision",
        ),
      ])
      .orderBy("programApplication.createdAt", "desc")
      .orderBy("applicationId", "desc");

  return asked<ApplicationStore>({
    async insert(id, account, request) {
      try {
        await db
          .insertInto("programApplication")
          .values({ applicationId: id, accountId: account, ...request })
          .execute();
        return "created";
      } catch (error) {
        if (uniqueViolation(error) === "program_application_open") return "open";
        throw error;
      }
    },

    find: (id) => rows().where("applicationId", "=", id).executeTakeFirst(),
    latest: (account) => rows().where("programApplication.accountId", "=", account).limit(1).executeTakeFirst(),

    list(status, after, limit) {
      let page = rows().limit(limit);
      if (status !== undefined) page = page.where("status", "=", status);
      if (after !== undefined)
        page = page.where(
          sql<boolean>`(program_application.created_at, application_id) <
            (select a.created_at, a.application_id from program_application a where a.application_id = ${after})`,
        );
      return page.execute();
    },

    decide: (id, { status, credit, act }) =>
      inTransaction(db, async (trx) => {
        const row = await trx
          .selectFrom("programApplication")
          .select(["status", "accountId"])
          .where("applicationId", "=", id)
          .forUpdate()
          .executeTakeFirst();
        if (!row) return "gone";
        if (row.status !== "pending") return "decided";
        await trx
          .updateTable("programApplication")
          .set({ status, decidedAt: now, decidedBy: act.by, decisionNote: act.note })
          .where("applicationId", "=", id)
          .execute();
        await auditAct(trx, act, {
          action: status === "approved" ? "application.approve" : "application.reject",
          subject: id,
          account: row.accountId,
          before: { status: row.status },
          after: { status, credit_nano_usd: String(credit) },
        });
        if (credit > 0n) await grant(trx, row.accountId, id, credit, act);
        return "done";
      }),
  });
}

/** Runs in the transaction of the decision, so that no application is approved without its credit. */
async function grant(trx: Trx, account: AccountId, id: string, amount: bigint, act: Act) {
  const reference = `program/${id}`;
  const outcome = await creditIn(trx, { account, amount, kind: "credit", note: act.note, reference }, act);
  // The account was deleted, or has another grant of this reference.
  if (outcome.kind !== "granted") throw new Error(`the credit of application ${id} was not granted: ${outcome.kind}`);
  const { limit, spent } = outcome.funds;
  const isLifted = (limit === null || limit > spent) && (await liftIn(trx, account, ["balance"], act));
  if (isLifted) await announce(trx, "account", account);
  await announce(trx, "limit", account);
}
