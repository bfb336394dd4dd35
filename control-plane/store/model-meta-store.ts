import { type Kysely, sql, type Transaction } from "kysely";
import type { MetaChange, ModelAct, ModelMetaStore, OwnModel } from "../catalog/store.ts";
import { asked } from "./asked.ts";
import { writeAudit } from "./audit-rows.ts";
import { announce } from "./change-feed.ts";
import { createContainerStore } from "./containers-store.ts";
import { inTransaction } from "./database.ts";
import type { Database } from "./schema.ts";

export function createModelMetaStore(db: Kysely<Database>): ModelMetaStore {
  const { hourRates } = createContainerStore(db);
  return asked<ModelMetaStore>({
    async papers({ account, name }) {
      const row = await db
        .selectFrom("model_meta")
        .select(["github_url", "paper_url", "license_url", "readme"])
        .where("account_id", "=", account)
        .where("model_name", "=", name)
        .executeTakeFirst();
      if (!row) return undefined;
      const { github_url: githubUrl, paper_url: paperUrl, license_url: licenseUrl, readme } = row;
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
        await write(trx, model, { is_public: isShown });
        if (!isShown) await takeOffers(trx, model);
        await audit(trx, "model.show", model, act, { public: isShown });
        await announce(trx, "model", model.name);
      }),

    forget: (model, act) =>
      inTransaction(db, async (trx) => {
        await takeOffers(trx, model);
        await trx
          .deleteFrom("model_meta")
          .where("account_id", "=", model.account)
          .where("model_name", "=", model.name)
          .execute();
        await audit(trx, "model.forget", model, act, null);
        await announce(trx, "model", model.name);
      }),

    hourRates,
  });
}

const deploymentsOf = (trx: Transaction<Database>, { account }: OwnModel) =>
  trx.selectFrom("deployment").select("deploy_id").where("account_id", "=", account);

async function takeOffers(trx: Transaction<Database>, model: OwnModel): Promise<void> {
  await trx
    .deleteFrom("public_model")
    .where("model_name", "=", model.name)
    .where("deploy_id", "in", deploymentsOf(trx, model))
    .execute();
}

const ownOffers = (trx: Transaction<Database>, model: OwnModel) =>
  trx
    .updateTable("public_model")
    .where("model_name", "=", model.name)
    .where("deploy_id", "in", deploymentsOf(trx, model));

async function write(
  trx: Transaction<Database>,
  { account, name }: OwnModel,
  values: Partial<ReturnType<typeof columnsOf>> & { is_public?: boolean },
): Promise<void> {
  const now = sql<Date>`now()`;
  await trx
    .insertInto("model_meta")
    .values({ account_id: account, model_name: name, ...values })
    .onConflict((at) => at.columns(["account_id", "model_name"]).doUpdateSet({ ...values, updated_at: now }))
    .execute();
}

function columnsOf(change: MetaChange) {
  const time = (ms: number | null | undefined) => (ms == null ? ms : new Date(ms));
  const columns = {
    description: change.description,
    github_url: change.githubUrl,
    paper_url: change.paperUrl,
    license_url: change.licenseUrl,
    cover_image: change.coverImage,
    readme: change.readme,
    tags: change.tags && [...change.tags],
    is_featured: change.isFeatured,
    deprecated_at: time(change.deprecatedAtMs),
    sunset_at: time(change.sunsetAtMs),
    replaced_by: change.replacedBy,
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
