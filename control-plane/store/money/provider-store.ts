import { sql } from "kysely";
import type { BudgetId, DeploymentId } from "../../../proto/ids.ts";
import { nano } from "../../../proto/money.ts";
import type { ProviderStore, ProviderTerms } from "../../billing/store.ts";
import { auditAct } from "../accounts/audit-rows.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";

/** Names of a provider's present budgets, and the name of its slices (billing/leases.ts). */
export interface ProviderNames {
  readonly month: (provider: DeploymentId, unixMs: number) => BudgetId;
  readonly day: (provider: DeploymentId, unixMs: number) => BudgetId;
  readonly payer: (provider: DeploymentId) => string;
}

export function createProviderStore(db: Db, names: ProviderNames): ProviderStore {
  return asked<ProviderStore>({
    async list(unixMs, limit, only) {
      const rows = await db
        .selectFrom("deployment as d")
        .leftJoin("provider as p", "p.deployId", "d.deployId")
        .select(["d.deployId", "d.modelName", "d.externalUrl", "d.status", "d.weights"])
        .select(["p.inputRate", "p.cachedInputRate", "p.outputRate", "p.requestRate", "p.monthLimit", "p.dayLimit"])
        .where("d.engine", "=", "external")
        .where(sql<boolean>`d.status <> 'deleted'`)
        .$if(only !== undefined, (one) => one.where("d.deployId", "=", only as DeploymentId))
        .orderBy("d.modelName")
        .orderBy("d.deployId")
        .limit(limit)
        .execute();
      const ids = rows.flatMap(({ deployId }) => [names.month(deployId, unixMs), names.day(deployId, unixMs)]);
      const budgets =
        ids.length === 0
          ? []
          : await db.selectFrom("budget").select(["budgetId", "spent"]).where("budgetId", "in", ids).execute();
      const spent = new Map(budgets.map((row) => [row.budgetId, row.spent]));
      return rows.map((row) => ({
        deployId: row.deployId,
        modelName: row.modelName,
        url: row.externalUrl ?? "",
        api: row.weights.api ?? "openai",
        status: row.status,
        terms:
          row.inputRate === null
            ? null
            : {
                rates: {
                  input: row.inputRate,
                  cachedInput: row.cachedInputRate ?? 0n,
                  output: row.outputRate ?? 0n,
                  request: row.requestRate ?? 0n,
                },
                monthLimit: row.monthLimit === null ? null : nano(row.monthLimit),
                dayLimit: row.dayLimit === null ? null : nano(row.dayLimit),
              },
        monthSpent: nano(spent.get(names.month(row.deployId, unixMs)) ?? 0n),
        daySpent: nano(spent.get(names.day(row.deployId, unixMs)) ?? 0n),
      }));
    },

    set: ({ by, ip }, server, terms, unixMs) =>
      inTransaction(db, async (trx) => {
        const deployment = await trx
          .selectFrom("deployment")
          .select("accountId")
          .where("deployId", "=", server)
          .where("engine", "=", "external")
          .where(sql<boolean>`status <> 'deleted'`)
          .executeTakeFirst();
        if (!deployment) return false;
        const values = columnsOf(terms);
        await trx
          .insertInto("provider")
          .values({ deployId: server, ...values })
          .onConflict((at) => at.column("deployId").doUpdateSet(values))
          .execute();
        // Rows of later periods may be there already. Settlements lock in the order of the names.
        for (const [first, limit] of [
          [names.day(server, unixMs), terms.dayLimit],
          [names.month(server, unixMs), terms.monthLimit],
        ] as const) {
          const prefix = first.slice(0, first.lastIndexOf("/") + 1);
          await sql`update budget set lim = ${limit?.toString() ?? null}::bigint
            where account_id = ${deployment.accountId} and starts_with(budget_id, ${prefix}) and budget_id >= ${first}`.execute(
            trx,
          );
        }
        const after = Object.fromEntries(
          Object.entries(values).map(([name, value]) => [name, value?.toString() ?? null]),
        );
        await auditAct(
          trx,
          { by, ip },
          { action: "provider.set", subject: server, account: deployment.accountId, after },
        );
        await announce(trx, "limit", names.payer(server));
        await announce(trx, "deployment", server);
        return true;
      }),
  });
}

const columnsOf = ({ rates, monthLimit, dayLimit }: ProviderTerms) => ({
  inputRate: rates.input,
  cachedInputRate: rates.cachedInput,
  outputRate: rates.output,
  requestRate: rates.request,
  monthLimit,
  dayLimit,
});
