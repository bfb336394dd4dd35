import { type Kysely, sql, type Transaction } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import type { Act, ApplicationRecord, ApplicationStatus, ApplicationStore } from "../../accounts/store.ts";
import { asked } from "../core/asked.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import type { Database } from "../core/schema.ts";
import { creditFunds } from "../money/credit-rows.ts";
import { writeAudit } from "./audit-rows.ts";
import { liftIn } from "./suspension-rows.ts";

export function createApplicationStore(db: Kysely<Database>): ApplicationStore {
  const rows = () =>
    db
      .selectFrom("programApplication")
      .innerJoin("account", "account.accountId", "programApplication.accountId")
      .selectAll("programApplication")
      .select("email")
      .orderBy("programApplication.createdAt", "desc")
      .orderBy("applicationId", "desc");

  return asked<ApplicationStore>({
    async insert(id, account, { foundedOn, ...request }) {
      try {
        await db
          .insertInto("programApplication")
          .values({ applicationId: id, accountId: account, foundedOn: foundedOn, ...request })
          .execute();
        return "created";
      } catch (error) {
        if (uniqueViolation(error) === "program_application_open") return "open";
        throw error;
      }
    },

    find: async (id) => recordOf(await rows().where("applicationId", "=", id).executeTakeFirst()),
    latest: async (account) =>
      recordOf(await rows().where("programApplication.accountId", "=", account).limit(1).executeTakeFirst()),

    async list(status, after, limit) {
      let page = rows().limit(limit);
      if (status !== undefined) page = page.where("status", "=", status);
      if (after !== undefined)
        page = page.where(
          sql<boolean>`(program_application.created_at, application_id) <
            (select a.created_at, a.application_id from program_application a where a.application_id = ${after})`,
        );
      return (await page.execute()).flatMap((row) => recordOf(row) ?? []);
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
          .set({ status, decidedAt: sql<Date>`now()`, decidedBy: act.by, decisionNote: act.note })
          .where("applicationId", "=", id)
          .execute();
        await writeAudit(trx, {
          actor: act.by,
          action: status === "approved" ? "application.approve" : "application.reject",
          subject: id,
          account: row.accountId,
          ip: act.ip,
          before: { status: row.status },
          after: { status, credit_nano_usd: String(credit) },
          note: act.note,
        });
        if (credit > 0n) await grant(trx, row.accountId as AccountId, id, credit, act);
        return "done";
      }),
  });
}

/** In the transaction of the decision: an approved application without its credit would have to be found by hand. */
async function grant(trx: Transaction<Database>, account: AccountId, id: string, amount: bigint, act: Act) {
  const reference = `program/${id}`;
  const outcome = await creditFunds(trx, { account, amount, kind: "credit", note: act.note, reference });
  // An account that has gone meanwhile, or one with another grant of this name: there is nothing to give it to.
  if (outcome.kind !== "granted") throw new Error(`the credit of application ${id} was not granted: ${outcome.kind}`);
  await writeAudit(trx, {
    actor: act.by,
    action: "credit.grant",
    subject: account,
    account,
    ip: act.ip,
    before: { limit: textOf(outcome.before.limit), spent: String(outcome.before.spent) },
    after: {
      limit: textOf(outcome.funds.limit),
      spent: String(outcome.funds.spent),
      amount: String(amount),
      reference,
    },
    note: act.note,
  });
  const { limit, spent } = outcome.funds;
  const isLifted = (limit === null || limit > spent) && (await liftIn(trx, account, ["balance"], act));
  if (isLifted) await announce(trx, "account", account);
  await announce(trx, "limit", account);
}

const textOf = (amount: bigint | null) => (amount === null ? null : String(amount));

interface StoredApplication {
  readonly applicationId: string;
  readonly accountId: string;
  readonly email: string;
  readonly company: string;
  readonly ceo: string;
  readonly funding: string;
  readonly foundedOn: string;
  readonly website: string;
  readonly deal: string;
  readonly status: string;
  readonly createdAt: Date;
  readonly decidedAt: Date | null;
  readonly decidedBy: string | null;
  readonly decisionNote: string | null;
}

function recordOf(row: StoredApplication | undefined): ApplicationRecord | undefined {
  if (!row) return undefined;
  const { company, ceo, funding, website, deal, email } = row;
  return {
    id: row.applicationId,
    account: row.accountId as AccountId,
    foundedOn: row.foundedOn,
    status: row.status as ApplicationStatus,
    createdAtMs: row.createdAt.getTime(),
    decision: row.decidedAt && {
      atMs: row.decidedAt.getTime(),
      by: row.decidedBy ?? "",
      note: row.decisionNote ?? "",
    },
    ...{ company, ceo, funding, website, deal, email },
  };
}
