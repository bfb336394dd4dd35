import { type Kysely, sql, type Transaction } from "kysely";
import type { AccountId } from "../../proto/ids.ts";
import type { Act, ApplicationRecord, ApplicationStatus, ApplicationStore } from "../accounts/store.ts";
import { asked } from "./asked.ts";
import { writeAudit } from "./audit-rows.ts";
import { announce } from "./change-feed.ts";
import { creditFunds } from "./credit-rows.ts";
import { inTransaction, uniqueViolation } from "./database.ts";
import type { Database } from "./schema.ts";
import { liftIn } from "./suspension-rows.ts";

export function createApplicationStore(db: Kysely<Database>): ApplicationStore {
  const rows = () =>
    db
      .selectFrom("program_application")
      .innerJoin("account", "account.account_id", "program_application.account_id")
      .selectAll("program_application")
      .select("email")
      .orderBy("program_application.created_at", "desc")
      .orderBy("application_id", "desc");

  return asked<ApplicationStore>({
    async insert(id, account, { foundedOn, ...wish }) {
      try {
        await db
          .insertInto("program_application")
          .values({ application_id: id, account_id: account, founded_on: foundedOn, ...wish })
          .execute();
        return "created";
      } catch (error) {
        if (uniqueViolation(error) === "program_application_open") return "open";
        throw error;
      }
    },

    find: async (id) => recordOf(await rows().where("application_id", "=", id).executeTakeFirst()),
    latest: async (account) =>
      recordOf(await rows().where("program_application.account_id", "=", account).limit(1).executeTakeFirst()),

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
          .selectFrom("program_application")
          .select(["status", "account_id"])
          .where("application_id", "=", id)
          .forUpdate()
          .executeTakeFirst();
        if (!row) return "gone";
        if (row.status !== "pending") return "decided";
        await trx
          .updateTable("program_application")
          .set({ status, decided_at: sql<Date>`now()`, decided_by: act.by, decision_note: act.note })
          .where("application_id", "=", id)
          .execute();
        await writeAudit(trx, {
          actor: act.by,
          action: status === "approved" ? "application.approve" : "application.reject",
          subject: id,
          account: row.account_id,
          ip: act.ip,
          before: { status: row.status },
          after: { status, credit_nano_usd: String(credit) },
          note: act.note,
        });
        if (credit > 0n) await grant(trx, row.account_id as AccountId, id, credit, act);
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
  readonly application_id: string;
  readonly account_id: string;
  readonly email: string;
  readonly company: string;
  readonly ceo: string;
  readonly funding: string;
  readonly founded_on: string;
  readonly website: string;
  readonly deal: string;
  readonly status: string;
  readonly created_at: Date;
  readonly decided_at: Date | null;
  readonly decided_by: string | null;
  readonly decision_note: string | null;
}

function recordOf(row: StoredApplication | undefined): ApplicationRecord | undefined {
  if (!row) return undefined;
  const { company, ceo, funding, website, deal, email } = row;
  return {
    id: row.application_id,
    account: row.account_id as AccountId,
    foundedOn: row.founded_on,
    status: row.status as ApplicationStatus,
    createdAtMs: row.created_at.getTime(),
    decision: row.decided_at && {
      atMs: row.decided_at.getTime(),
      by: row.decided_by ?? "",
      note: row.decision_note ?? "",
    },
    ...{ company, ceo, funding, website, deal, email },
  };
}
