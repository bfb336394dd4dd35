import { sql } from "kysely";
import type { Act } from "../../act.ts";
import type { MetaChange, ModelMetaStore, ModelVersion, OwnModel } from "../../catalog/store.ts";
import { auditAct } from "../accounts/audit-rows.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db, Trx } from "../core/schema.ts";
import { now } from "../core/time.ts";
import { createContainerStore } from "../deployments/containers-store.ts";

export function createModelMetaStore(db: Db): ModelMetaStore {
  const { hourRates } = createContainerStore(db);
  return asked<ModelMetaStore>({
    papers: ({ account, name }) =>
      db
        .selectFrom("modelMeta")
        .select(["githubUrl", "paperUrl", "licenseUrl", "readme"])
        .where("accountId", "=", account)
        .where("modelName", "=", name)
        .executeTakeFirst(),

    async versions({ account, name, deployId }) {
      const { rows } = await sql<ModelVersion>`
        select version, floor(extract(epoch from min(created_at)) * 1000)::float8 as uploaded_at_ms from deployment
        where account_id = ${account} and kind = 'model' and status <> 'deleted'
          and (model_name = ${name} or deploy_id = ${deployId})
        group by version order by min(created_at) desc`.execute(db);
      return rows;
    },

    change: (model, change, act) =>
      inTransaction(db, async (trx) => {
        await write(trx, model, columnsOf(change));
        if (change.description !== undefined)
          await trx
            .updateTable("publicModel")
            .set({ description: change.description })
            .where(isOwnOffer(model))
            .execute();
        await audit(trx, "model.describe", model, act, Object.keys(change));
        await announce(trx, "model", model.name);
      }),

    show: (model, isShown, act) =>
      inTransaction(db, async (trx) => {
        await write(trx, model, { isPublic: isShown });
        if (!isShown) await trx.deleteFrom("publicModel").where(isOwnOffer(model)).execute();
        await audit(trx, "model.show", model, act, { public: isShown });
        await announce(trx, "model", model.name);
      }),

    forget: (model, act) =>
      inTransaction(db, async (trx) => {
        await trx.deleteFrom("publicModel").where(isOwnOffer(model)).execute();
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

const isOwnOffer = ({ account, name }: OwnModel) =>
  sql<boolean>`model_name = ${name} and deploy_id in (select deploy_id from deployment where account_id = ${account})`;

async function write(
  trx: Trx,
  { account, name }: OwnModel,
  values: Partial<ReturnType<typeof columnsOf>> & { isPublic?: boolean },
): Promise<void> {
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

const audit = (trx: Trx, action: string, { account, name }: OwnModel, act: Act, after: unknown) =>
  auditAct(trx, act, { action, subject: name, account, after });
