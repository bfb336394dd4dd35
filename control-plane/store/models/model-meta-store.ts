import { type Kysely, sql, type Transaction } from "kysely";
import type { MetaChange, ModelAct, ModelMetaStore, OwnModel } from "../../catalog/store.ts";
import { asked } from "../core/asked.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import type { Database } from "../core/schema.ts";
import { createContainerStore } from "../deployments/containers-store.ts";
import { writeAudit } from "../people/audit-rows.ts";

export function createModelMetaStore(db: Kysely<Database>): ModelMetaStore {
  const { hourRates } = createContainerStore(db);
  return asked<ModelMetaStore>({
    async papers({ account, name }) {
      const row = await db
        .selectFrom("modelMeta")
        .select(["githubUrl", "paperUrl", "licenseUrl", "readme"])
        .where("accountId", "=", account)
        .where("modelName", "=", name)
        .executeTakeFirst();
      if (!row) return undefined;
      const { githubUrl, paperUrl, licenseUrl, readme } = row;
      return { githubUrl, paperUrl, licenseUrl, readme };
    },

    async versions({ account, name, deployId }) {
      const { rows } = await sql<{ version: string; since: Date }>`
        select version, min(created_at) as since from deployment
        where account_id = ${account} and kind = 'model' and status <> 'deleted'
          and (model_name = ${name} or deploy_id = ${deployId})
        group by version order by since desc`.execute(db);
      return rows.map(({ version, since }) => ({ version, uploadedAtMs: since.getTime() }));
    },

    change: (model, change, act) =>
      inTransaction(db, async (trx) => {
        await write(trx, model, columnsOf(change));
        if (change.description !== undefined)
          await ownOffers(trx, model).set({ description: change.description }).execute();
        await audit(trx, "model.describe", model, act, Object.keys(change));
        await announce(trx, "model", model.name);
      }),

    show: (model, isShown, act) =>
      inTransaction(db, async (trx) => {
        await write(trx, model, { isPublic: isShown });
        if (!isShown) await takeOffers(trx, model);
        await audit(trx, "model.show", model, act, { public: isShown });
        await announce(trx, "model", model.name);
      }),

    forget: (model, act) =>
      inTransaction(db, async (trx) => {
        await takeOffers(trx, model);
        await trx
          .deleteFrom("modelMeta")
          .where("accountId", "=", model.account)
          .where("modelName", "=", model.name)
          .execute();
        await audit(trx, "model.forget", model, act, null);
        await announce(trx, "model", model.name);
      }),

    hourRates,
  });
}

const deploymentsOf = (trx: Transaction<Database>, { account }: OwnModel) =>
  trx.selectFrom("deployment").select("deployId").where("accountId", "=", account);

async function takeOffers(trx: Transaction<Database>, model: OwnModel): Promise<void> {
  await trx
    .deleteFrom("publicModel")
    .where("modelName", "=", model.name)
    .where("deployId", "in", deploymentsOf(trx, model))
    .execute();
}

const ownOffers = (trx: Transaction<Database>, model: OwnModel) =>
  trx.updateTable("publicModel").where("modelName", "=", model.name).where("deployId", "in", deploymentsOf(trx, model));

async function write(
  trx: Transaction<Database>,
  { account, name }: OwnModel,
  values: Partial<ReturnType<typeof columnsOf>> & { isPublic?: boolean },
): Promise<void> {
  const now = sql<Date>`now()`;
  await trx
    .insertInto("modelMeta")
    .values({ accountId: account, modelName: name, ...values })
    .onConflict((at) => at.columns(["accountId", "modelName"]).doUpdateSet({ ...values, updatedAt: now }))
    .execute();
}

function columnsOf(change: MetaChange) {
  const time = (ms: number | null | undefined) => (ms == null ? ms : new Date(ms));
  const columns = {
    description: change.description,
    githubUrl: change.githubUrl,
    paperUrl: change.paperUrl,
    licenseUrl: change.licenseUrl,
    coverImage: change.coverImage,
    readme: change.readme,
    tags: change.tags && [...change.tags],
    isFeatured: change.isFeatured,
    deprecatedAt: time(change.deprecatedAtMs),
    sunsetAt: time(change.sunsetAtMs),
    replacedBy: change.replacedBy,
  };
  const given = Object.entries(columns).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as { [K in keyof typeof columns]?: Exclude<(typeof columns)[K], undefined> };
}

async function audit(
  trx: Transaction<Database>,
  action: string,
  { account, name }: OwnModel,
  { by, ip }: ModelAct,
  after: unknown,
): Promise<void> {
  await writeAudit(trx, { actor: by, action, subject: name, account, ip, after });
}
